import { expect, test } from "vitest";
import { machineOf } from "./machine";

test("what is empty is left out, numbers are numbers, secrets stay as they are", () => {
  const fields = {
    host: " h ",
    port: "22",
    user: "",
    password: " p ",
    gpuIndices: "0,1",
    useActiveGpu: "true",
  };
  expect(machineOf(fields)).toEqual({
    host: "h",
    port: 22,
    password: " p ",
    gpuIndices: "0,1",
    useActiveGpu: true,
  });
  expect(machineOf({ host: "h", port: "ssh" })).toEqual({ host: "h", port: "ssh" });
});
