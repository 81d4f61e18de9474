// Shows the records that have the chosen verdict and all words that were typed, and only tables that have one.
const form = document.querySelector(".targets-filter");
const records = [...document.querySelectorAll("details.target")];
const texts = records.map((record) => record.textContent.toLowerCase());

function filter() {
  const words = form.word.value.toLowerCase().split(/\s+/);
  const verdict = form.verdict.value;
  records.forEach((record, at) => {
    const wanted = !verdict || record.dataset.verdict === verdict;
    record.hidden = !(wanted && words.every((word) => texts[at].includes(word)));
  });
  document.querySelectorAll("section:has(> .targets)").forEach((section) => {
    section.hidden = !section.querySelector("details.target:not([hidden])");
  });
  form.querySelector("output").textContent = `${records.filter((record) => !record.hidden).length} shown`;
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
filter(); // browsers keep what was typed when a page is loaded again
