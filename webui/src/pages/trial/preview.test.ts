import { expect, test } from "vitest";
import { kindOf, MOST_BYTES, textOf } from "./preview";
import { tableOf } from "./previewTable";

const bytes = (text: string) => new TextEncoder().encode(text).buffer;

test("the kind follows the name and the size", () => {
  expect(kindOf("plots/Loss.PNG", 5)).toBe("image");
  expect(kindOf("history.csv", 5)).toBe("table");
  expect(kindOf("Makefile", 5)).toBe("text");
  expect(kindOf("model.pt", 5)).toBeNull();
  expect(kindOf("long.log", MOST_BYTES.text + 1)).toBeNull();
  expect(kindOf("photo.jpg", MOST_BYTES.text + 1)).toBe("image");
});

test("only text is text", () => {
  expect(textOf(bytes("größer\n"))).toBe("größer\n");
  expect(textOf(bytes("a\0b"))).toBeNull();
  expect(textOf(new Uint8Array([0xff, 0xfe, 0xfd]).buffer)).toBeNull();
});

test("a table has columns and rows, also with commas and line ends in quotes", () => {
  expect(tableOf('epoch,"loss, mean"\n1,0.5\n2,"0\n5"\n')).toEqual({
    columns: ["epoch", "loss, mean"],
    rows: [
      ["1", "0.5"],
      ["2", "0\n5"],
    ],
    cut: false,
  });
  expect(tableOf("a\tb\n1\t2\n").columns).toEqual(["a", "b"]);
  expect(tableOf("").rows).toEqual([]);
});

test("a long table is cut", () => {
  const long = tableOf(`n\n${Array.from({ length: 300 }, (_, number) => number).join("\n")}`);
  expect(long.rows.length).toBe(200);
  expect(long.cut).toBe(true);
  const whole = tableOf(`n\n${Array.from({ length: 200 }, (_, number) => number).join("\n")}`);
  expect(whole.rows.length).toBe(200);
  expect(whole.cut).toBe(false);
});
