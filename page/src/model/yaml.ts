// YAML in pieces for display: the keys are marked. The host's writer makes plain block YAML, so a line is enough to tell.

/** A line: its indent, its key with the colon if it has one, and the rest. */
export interface YamlLine {
  indent: string;
  key: string;
  rest: string;
}

const LINE = /^(\s*(?:- )*)((?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#:][^:]*?):(?=\s|$))?(.*)$/;

/** Splits YAML into lines. Lines of block scalars have no keys. */
export function yamlLines(yaml: string): YamlLine[] {
  let block = -1;
  return yaml.replace(/\n$/, "").split("\n").map((line) => {
    const depth = line.search(/\S/);
    if (block >= 0 && (depth < 0 || depth > block)) return { indent: "", key: "", rest: line };
    const [, indent = "", key = "", rest = ""] = LINE.exec(line) ?? [];
    block = /^\s*[|>][+-]?\d*\s*$/.test(rest) ? indent.length : -1;
    return { indent, key, rest };
  });
}

/** Splits a list into parts of equal size. */
export function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
