/** Draws a lineage, and finds what is below the pointer. */
import { strings } from "@/strings";
import { levelColours, type Colours } from "@/ui/chart/colours";
import { tip } from "@/ui/chart/tip";
import { formatNumber } from "@/ui/format";
import type { Paint, Scales } from "@/ui/plot/paint";
import type { Hit } from "@/ui/plot/Plot";
import { shownValue } from "@/ui/trial/flat";
import { stretchAt, type Arrow, type Origin, type Picture, type Scale, type Stretch } from "./lineageData";

const words = strings.analysis.lineage;
const MOST_TOLD = 12; // parameters in a tooltip
/** Of more arrows in sight, only those of the leg below the pointer are drawn. */
export const MOST_ARROWS = 100;

export interface Look {
  /** The parameter that gives the colours; "": none. */
  name: string;
  scale: Scale;
  colours: Colours;
}

/** Gives the colour of a value. */
export function colourer({ scale, colours }: Look): (value: unknown) => string {
  const levels = levelColours(colours.dark);
  return (value) => {
    const place = scale.placeOf(value);
    if (place === null) return colours.quiet;
    const found =
      scale.kind === "range"
        ? levels[Math.round(place * (levels.length - 1))]
        : colours.series[place % colours.series.length];
    return found ?? colours.quiet;
  };
}

const heightOf = ({ y }: Scales) => Math.max(1, Math.min(24, Math.abs(y.at(1) - y.at(0)) * 0.7));

export const painter =
  ({ stretches, arrows }: Picture, look: Look): Paint =>
  (context, scales) => {
    const { colours, name } = look;
    const [height, colourOf] = [heightOf(scales), colourer(look)];
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const each of stretches) {
      const { left, top, width } = boxOf(each, scales, height);
      const value = each.parameters.get(name);
      context.fillStyle = colourOf(value);
      context.fillRect(left, top, width, height);
      const text = value === undefined ? "" : shownValue(value);
      const begin = Math.max(left, scales.room.left) + 5;
      if (height < 14 || context.measureText(text).width > left + width - begin - 5) continue;
      context.strokeStyle = colours.card; // so that it is read on every colour
      context.lineWidth = 3;
      context.strokeText(text, begin, top + height / 2);
      context.fillStyle = colours.ink;
      context.fillText(text, begin, top + height / 2);
    }
    const seen = arrows.filter((arrow) => isInSight(arrow, scales));
    if (seen.length > MOST_ARROWS) return;
    context.globalAlpha = 0.8;
    for (const arrow of seen) paintArrow(context, scales, arrow, colours, 1);
    context.globalAlpha = 1;
  };

function boxOf({ from, to, lane }: Stretch, { x, y }: Scales, height: number) {
  const [left, right] = [x.at(from), x.at(to)];
  const width = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
  return { left, top: y.at(lane) - height / 2, width };
}

/** Whether an end of the arrow is in the part that is shown. */
function isInSight({ lane, at, heir }: Arrow, { x, y }: Scales): boolean {
  const inside = (time: number, row: number) =>
    time >= x.low && time <= x.high && row >= y.low && row <= y.high;
  return inside(at, lane) || inside(heir.from, heir.lane);
}

/** Paint an arrow, dashed for a fork, with an edge that sets it off from the legs below. */
function paintArrow(
  context: CanvasRenderingContext2D,
  { x, y }: Scales,
  { lane, at, heir }: Arrow,
  { ink, card }: Colours,
  width: number,
): void {
  const [left, top, right, bottom] = [x.at(at), y.at(lane), x.at(heir.from), y.at(heir.lane)];
  const [wide, high] = [right - left, bottom - top];
  const length = Math.hypot(wide, high);
  if (length === 0) return;
  const [ahead, beside] = [(7 * wide) / length, (7 * high) / length];
  const dash = heir.origin?.fork === true ? [4, 3] : [];
  const paintLine = (colour: string, thick: number, dashes: readonly number[]) => {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.setLineDash([...dashes]);
    context.beginPath();
    context.moveTo(left, top);
    context.lineTo(right, bottom);
    context.stroke();
  };
  paintLine(card, width + 2, []);
  paintLine(ink, width, dash);
  context.setLineDash([]);
  context.fillStyle = ink;
  context.beginPath();
  context.moveTo(right, bottom);
  context.lineTo(right - ahead - beside / 2.5, bottom - beside + ahead / 2.5);
  context.lineTo(right - ahead + beside / 2.5, bottom - beside - ahead / 2.5);
  context.fill();
}

export const finder =
  ({ stretches, arrows }: Picture, look: Look, open: (sequence: number) => void) =>
  (at: { x: number; y: number }, scales: Scales): Hit | null => {
    const { x, y, room } = scales;
    if (at.x < room.left || at.x > room.right) return null;
    const found = stretchAt(stretches, Math.round(y.of(at.y)), x.of(at.x));
    if (found === undefined) return null;
    const height = heightOf(scales);
    return {
      x: at.x,
      y: y.at(found.lane),
      tip: tipOf(found, look.name),
      onPick: () => open(found.trial.sequence),
      draw: (context) => {
        const { left, top, width } = boxOf(found, scales, height);
        context.strokeRect(left - 1, top - 1, width + 2, height + 2);
        const own = (each: Arrow) => each.lane === found.lane && each.at >= found.from && each.at <= found.to;
        for (const arrow of arrows)
          if (arrow.heir === found || own(arrow)) paintArrow(context, scales, arrow, look.colours, 2);
      },
    };
  };

/** From where a leg continues. */
export const originText = (origin: Origin | null): string =>
  origin === null
    ? words.beginning
    : words.origin(
        origin.step === null ? words.checkpoint(origin.number) : words.step(formatNumber(origin.step)),
        origin.sequence,
      );

function tipOf({ trial, leg, origin, reports, reason, parameters }: Stretch, name: string): HTMLElement {
  const others = [...parameters].filter(([each]) => each !== name);
  const told = parameters.has(name) ? [[name, parameters.get(name)] as const, ...others] : others;
  return tip(words.leg(trial.sequence, leg), [
    [origin?.fork === true ? words.forkedFrom : words.continuesFrom, originText(origin)],
    ...(reason === "" ? [] : [[words.why, reason] as const]),
    [words.firstResult, formatNumber(reports)],
    [strings.analysis.status, trial.status],
    ...told.slice(0, MOST_TOLD).map(([each, value]) => [each, shownValue(value)] as const),
  ]);
}
