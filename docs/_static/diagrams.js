// Draws diagrams in the colours of the page, and again when the reader changes them.
const sources = [...document.querySelectorAll("pre.mermaid")].map((place) => [place, place.textContent]);

async function draw() {
  mermaid.initialize({ startOnLoad: false, theme: document.documentElement.dataset.theme === "dark" ? "dark" : "neutral" });
  for (const [place, source] of sources) {
    place.removeAttribute("data-processed");
    place.textContent = source;
  }
  await mermaid.run({ nodes: sources.map(([place]) => place) });
}

new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
draw();
