// The rules of lint.mjs. What objects and plugins say is text: there is no exception to that.

const RULES = [
  [/\b(inner|outer)HTML\b|\binsertAdjacentHTML\b|\bdangerouslySetInnerHTML\b|\bsetHTML(Unsafe)?\b|\bcreateContextualFragment\b|\bDOMParser\b|\bsrcdoc\b|\bdocument\.write/, "makes HTML of a string"],
  [/\beval\(|\bnew Function\b|\bimport\((?!")|javascript:/, "runs a string"],
  [/\bstyle="|setAttribute\(\s*["'`]style|\bcssText\b|<style\b|<script\b/, "needs inline styles or scripts; set a property of element.style"],
  [/\bon[a-z]+="/, "has an inline handler"],
  [/https?:\/\/(?!www\.w3\.org\/)/, "names another origin"],
];
const LINES = 400;

/** Returns the findings in a source text. */
export function findings(name, source) {
  const found = [];
  const lines = source.split("\n");
  if (lines.length > LINES) found.push(`${name}: ${lines.length} lines, more than ${LINES}`);
  for (const [i, line] of lines.entries()) {
    if (/^\s*(\/\/|\*|\/\*)/.test(line)) continue;
    for (const [pattern, problem] of RULES) if (pattern.test(line)) found.push(`${name}:${i + 1}: ${problem}: ${line.trim()}`);
  }
  return found;
}
