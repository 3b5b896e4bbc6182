import { expect, test } from "vitest";
import { ColumnStore } from "./columns";
import { pack, type Written } from "./packed.testing";

type Rows = Record<string, Written>;

/** A server that answers from a queue, and remembers what it was asked. */
function serving(...answers: { revision: number; columns: Rows }[]) {
  const asked: [number, string][] = [];
  const store = new ColumnStore((since, names) => {
    asked.push([since, names.join(",")]);
    const next = answers.shift();
    if (next === undefined) throw new Error("nothing more to answer");
    const header = { revision: next.revision, rows: 0, total: 0, originAt: "2026-01-01T00:00:00Z" };
    return Promise.resolve(pack(header, Object.values(next.columns)));
  });
  return { store, asked };
}

const sequence = (...values: number[]): Written => ({ name: "sequence", type: "u32", values });
const value = (...values: number[]): Written => ({ name: "value", type: "f32", values });
const status = (values: number[], categories: string[]): Written => ({
  name: "status",
  type: "u8",
  values,
  categories,
});
const numbers = (column: { values: ArrayLike<number> } | undefined) => Array.from(column?.values ?? []);

test("reads all once, then what has changed", async () => {
  const { store, asked } = serving(
    { revision: 5, columns: { sequence: sequence(0, 1, 2), value: value(1, NaN, 3) } },
    { revision: 9, columns: { sequence: sequence(1, 3), value: value(20, 40) } },
    { revision: 9, columns: { sequence: sequence(), value: value() } },
  );
  const first = await store.refresh(["value"]);
  const second = await store.refresh(["value"]);
  const third = await store.refresh(["value"]);
  expect(asked).toEqual([
    [0, "value"],
    [5, "value"],
    [9, "value"],
  ]);
  expect(numbers(first.get("value"))).toEqual([1, NaN, 3]); // as it was
  expect([...second.sequence]).toEqual([0, 1, 2, 3]);
  expect(numbers(second.get("value"))).toEqual([1, 20, 3, 40]);
  expect(third.get("value")?.values).toBe(second.get("value")?.values);
  expect([second.rowOf(3), second.rowOf(4)]).toEqual([3, -1]);
});

test("questions at the same time share a request", async () => {
  const { store, asked } = serving({
    revision: 1,
    columns: { sequence: sequence(0), value: value(1), status: status([0], ["DONE"]) },
  });
  const [one, two] = await Promise.all([store.refresh(["value"]), store.refresh(["status"])]);
  expect(asked).toEqual([[0, "value,status"]]);
  expect(one).toBe(two);
});

test("a further column is read whole; where rows differ, values are missing until the next time", async () => {
  const { store, asked } = serving(
    { revision: 2, columns: { sequence: sequence(0, 1), value: value(1, 2) } },
    { revision: 2, columns: { sequence: sequence(), value: value() } },
    { revision: 3, columns: { sequence: sequence(0, 1, 2), status: status([0, 1, 0], ["a", "b"]) } },
    {
      revision: 3,
      columns: { sequence: sequence(2), value: value(3), status: status([0], ["a", "b"]) },
    },
  );
  await store.refresh(["value"]);
  const between = await store.refresh(["status"]);
  expect(numbers(between.get("value"))).toEqual([1, 2, NaN]);
  const after = await store.refresh(["status"]);
  expect(numbers(after.get("value"))).toEqual([1, 2, 3]);
  expect(numbers(after.get("status"))).toEqual([0, 1, 0]);
  expect(asked.at(-1)).toEqual([2, "value,status"]);
});

test("a column whose codes mean something else is read anew", async () => {
  const { store, asked } = serving(
    { revision: 1, columns: { sequence: sequence(0, 1), status: status([0, 1], ["a", "b"]) } },
    { revision: 2, columns: { sequence: sequence(1), status: status([1], ["b", "a"]) } },
    { revision: 2, columns: { sequence: sequence(0, 1), status: status([1, 1], ["b", "a"]) } },
  );
  await store.refresh(["status"]);
  const columns = await store.refresh(["status"]);
  expect(asked.at(-1)).toEqual([0, "status"]);
  expect(numbers(columns.get("status"))).toEqual([1, 1]);
  expect(columns.get("status")?.categories).toEqual(["b", "a"]);
});

test("floats become wide when a wide one comes", async () => {
  const { store } = serving(
    { revision: 1, columns: { sequence: sequence(0), value: value(0.5) } },
    {
      revision: 2,
      columns: { sequence: sequence(1), value: { name: "value", type: "f64", values: [1e300] } },
    },
  );
  await store.refresh(["value"]);
  expect(numbers((await store.refresh(["value"])).get("value"))).toEqual([0.5, 1e300]);
});

test("after a failure the next question is answered", async () => {
  let fail = true;
  const store = new ColumnStore(() =>
    fail
      ? Promise.reject(new Error("no answer"))
      : Promise.resolve(pack({ revision: 1, originAt: "2026-01-01T00:00:00Z" }, [sequence(0), value(1)])),
  );
  await expect(store.refresh(["value"])).rejects.toThrow("no answer");
  fail = false;
  expect((await store.refresh(["value"])).rows).toBe(1);
});

test("an older revision means another database: all is read anew", async () => {
  const { store, asked } = serving(
    { revision: 8, columns: { sequence: sequence(0, 1), value: value(1, 2) } },
    { revision: 3, columns: { sequence: sequence(), value: value() } },
    { revision: 3, columns: { sequence: sequence(0), value: value(7) } },
  );
  await store.refresh(["value"]);
  expect(numbers((await store.refresh(["value"])).get("value"))).toEqual([7]);
  expect(asked.at(-1)).toEqual([0, "value"]);
});
