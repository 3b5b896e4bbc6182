export const chart = {
  data: "Data ▾",
  dataOf: (title: string) => `Data of ${title}`,
  csv: "Download CSV",
  svg: "Download SVG",
  png: "Download PNG",
  table: "Show as a table",
  notDrawn: "The chart is not drawn yet. Try again in a moment.",
  noRows: "There are no rows.",
  firstRows: (shown: number, total: number) =>
    `The first ${shown.toLocaleString("en")} of ${total.toLocaleString("en")} rows; the CSV has all.`,
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  zoomReset: "Show all",
  hint: "Drag to select · Ctrl + wheel to zoom · Shift + drag to move · click a mark to open its trial",
} as const;
