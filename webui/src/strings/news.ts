export const news = {
  menu: "Notify me in this browser",
  denied: "The browser does not allow notifications of this page. Allow them in its settings for this site.",
  ended: (name: string, status: string) => `${name} is ${status}`,
  best: (value: string) => `Best result: ${value}.`,
  better: (value: string) => `New best result: ${value}.`,
} as const;
