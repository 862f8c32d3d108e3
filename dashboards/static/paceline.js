// Draws the figures, offers to copy commands, and says when a run has new data.
// Without it every number is still on the page.
"use strict";

const css = () => getComputedStyle(document.documentElement);

/** JSON with every `var(--name)` replaced by the value the style sheet gives it now. */
function parse(text) {
  const style = css();
  return JSON.parse(text, (_key, value) =>
    typeof value === "string" && value.startsWith("var(--")
      ? style.getPropertyValue(value.slice(4, -1)).trim()
      : value);
}

function draw(box) {
  box.source ??= box.removeChild(box.querySelector("script")).textContent;
  const { data, layout } = parse(box.source);
  // Where a finger scrolls the page it must not be caught by a figure.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  layout.dragmode = isTouch ? false : "zoom";
  Plotly.react(box, data, layout, {
    displaylogo: false,
    displayModeBar: isTouch ? false : "hover",
    responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  });
  box.dataset.drawn = "";
}

function drawFigures() {
  const boxes = [...document.querySelectorAll(".plot")];
  if (!boxes.length || !globalThis.Plotly) return;
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) {
        seen.unobserve(target);
        draw(target);
      }
    }
  }, { rootMargin: "400px" });
  boxes.forEach((box) => seen.observe(box));
  const redraw = () => boxes.filter((box) => "drawn" in box.dataset).forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is light, and shows figures that were never scrolled to.
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("on-paper");
    boxes.forEach(draw);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("on-paper");
    redraw();
  });
}

function offerCopies() {
  for (const command of document.querySelectorAll("pre.command")) {
    const text = command.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      button.textContent = (await copy(text, command)) ? "Copied" : "Press Ctrl-C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    command.prepend(button);
  }
}

/** Copies; where a page may not (no HTTPS), selects the text instead and returns false. */
async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}

/** Follows a run and tells how it goes. Nothing else on the page moves by itself. */
function follow() {
  const notice = document.querySelector("[data-events]");
  if (!notice) return;
  let events = null;
  let isOver = false;
  const told = ({ data, lastEventId }) => {
    const run = JSON.parse(data);
    isOver = run.finished_at !== null;
    if (isOver) events.close();
    if (lastEventId === notice.dataset.seen) return;
    notice.classList.add("new");
    notice.querySelector("[role=status]").textContent =
      `There is new data. ${isOver ? "The run has ended. " : ""}${run.headline}`;
  };
  // Only while somebody looks: over HTTP/1.1 a browser has six connections for all tabs of a site.
  const connect = () => {
    events?.close();
    if (document.hidden || isOver) return;
    events = new EventSource(notice.dataset.events);
    events.addEventListener("progress", told);
    // It connects anew by itself, except after an error that a server or a proxy answered.
    events.addEventListener("error", ({ target }) => {
      if (target.readyState === EventSource.CLOSED && target === events) setTimeout(connect, 5000);
    });
  };
  document.addEventListener("visibilitychange", connect);
  connect();
}

drawFigures();
offerCopies();
follow();
