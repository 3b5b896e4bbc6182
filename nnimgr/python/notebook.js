// Widget of an experiment: shows the page that Python has made, and buttons that ask Python to act.

const PATIENCE_MS = 2000;
const FONT = "font:12px var(--jp-ui-font-family, system-ui)";
const BUTTON = `${FONT};color:inherit;background:none;padding:2px 12px;cursor:pointer;border-radius:3px;
  border:1px solid var(--jp-border-color1, #8590a2)`;

function render({ model, el }) {
  const page = document.createElement("div");
  const row = document.createElement("div");
  const said = document.createElement("span");
  row.style.cssText = "display:flex;gap:8px;align-items:center;min-height:28px";
  said.setAttribute("role", "status");
  said.style.cssText = `${FONT};color:var(--jp-ui-font-color2, #566072)`;
  el.append(page, row);
  let timer = 0;

  const draw = () => {
    page.innerHTML = model.get("page");
  };

  const say = () => {
    said.textContent = model.get("said");
  };

  const ask = (action) => {
    for (const button of row.querySelectorAll("button")) {
      button.disabled = true;
    }
    timer = setTimeout(() => {
      said.textContent = model.get("silence");
    }, PATIENCE_MS);
    model.send({ action });
  };

  const offer = () => {
    const made = model.get("actions").map(([action, label, hint]) => {
      const button = document.createElement("button");
      button.textContent = label;
      button.title = hint;
      button.style.cssText = BUTTON;
      button.onclick = () => ask(action);
      return button;
    });
    row.replaceChildren(...made, said);
  };

  const hear = ({ state }) => {
    clearTimeout(timer);
    say();
    if (state === "done") {
      offer();
    }
  };

  model.on("change:page", draw);
  model.on("change:said", say);
  model.on("change:actions", offer);
  model.on("msg:custom", hear);
  draw();
  offer();
  say();
}

export default { render };
