export const problems = {
  line: (line: number) => `Line ${line}`,
  goTo: (line: number) => `Go to line ${line}`,
  valid: (values: string) => `Valid: ${values}`,
  nearest: (value: string) => `Did you mean ${value}?`,
  inFile: (file: string, line: number | null) => (line === null ? file : `${file}, line ${line}`),
} as const;
