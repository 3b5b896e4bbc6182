/** A machine as a form has it: every value a text. */

export const FIRST = ["host", "port", "user", "sshKeyFile", "password", "sshPassphrase"] as const;
export const FURTHER = ["gpuIndices", "maxTrialNumberPerGpu", "pythonPath", "proxyJump"] as const;
export type Field = (typeof FIRST)[number] | (typeof FURTHER)[number] | "hostKeyPolicy" | "useActiveGpu";
export type Fields = Partial<Record<Field, string>>;

/** The item of machineList: what is empty is left out; what is not a number stays a text, for the server to refuse. */
export function machineOf(fields: Fields): Record<string, string | number | boolean> {
  const machine: Record<string, string | number | boolean> = {};
  for (const [name, text] of Object.entries(fields)) {
    const secret = name === "password" || name === "sshPassphrase";
    const value = secret ? text : text.trim();
    if (value === "") continue;
    if (name === "useActiveGpu") machine[name] = value === "true";
    else if ((name === "port" || name === "maxTrialNumberPerGpu") && /^\d+$/.test(value))
      machine[name] = Number(value);
    else machine[name] = value;
  }
  return machine;
}
