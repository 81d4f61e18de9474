// Shows the rows of the table of targets that have the chosen verdict and all words that were typed.
const form = document.querySelector(".targets-filter");
const rows = [...document.querySelectorAll("table.targets tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());

function filter() {
  const words = form.word.value.toLowerCase().split(/\s+/);
  const verdict = form.verdict.value;
  rows.forEach((row, at) => {
    const wanted = !verdict || row.dataset.verdict === verdict;
    row.hidden = !(wanted && words.every((word) => texts[at].includes(word)));
  });
  form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} rows`;
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
filter(); // browsers keep what was typed when a page is loaded again
