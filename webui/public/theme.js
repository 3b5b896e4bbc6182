// Before the first paint, so that no other theme flashes: the one chosen here, else the system's.
let theme = null;
try {
  theme = localStorage.getItem("nnimgr.theme");
} catch {
  // no storage
}
if (theme !== "dark" && theme !== "light")
  theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.dataset.theme = theme;
