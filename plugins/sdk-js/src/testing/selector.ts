/** Label selectors in the API server's syntax: `app=db,tier in (a, b),!old`. */

/** A requirement of a selector. */
interface Requirement {
  readonly key: string;
  /** The accepted values; absent for any value. */
  readonly values?: readonly string[];
  /** Negates the requirement. */
  readonly negated: boolean;
}

/**
 * Reports whether a selector matches these labels.
 *
 * @throws SyntaxError if the selector does not parse.
 */
export function matches(selector: string, labels: Readonly<Record<string, string>>): boolean {
  return split(selector)
    .map((part) => parse(part.trim()))
    .every(({ key, values, negated }) => {
      const value = labels[key];
      return (value !== undefined && (values?.includes(value) ?? true)) !== negated;
    });
}

/** Splits a selector at the commas outside parentheses. */
function split(selector: string): string[] {
  return selector.trim() === "" ? [] : selector.split(/,(?![^(]*\))/);
}

const LABEL = "[A-Za-z0-9._/-]+";
const FORMS: readonly [RegExp, (key: string, values: string) => Requirement][] = [
  [new RegExp(`^!\\s*(${LABEL})()$`), (key) => ({ key, negated: true })],
  [new RegExp(`^(${LABEL})()$`), (key) => ({ key, negated: false })],
  [new RegExp(`^(${LABEL})\\s*!=\\s*([\\w.-]*)$`), (key, value) => ({ key, values: [value], negated: true })],
  [new RegExp(`^(${LABEL})\\s*==?\\s*([\\w.-]*)$`), (key, value) => ({ key, values: [value], negated: false })],
  [new RegExp(`^(${LABEL})\\s+in\\s*\\(([^()]*)\\)$`), (key, values) => ({ key, values: list(values), negated: false })],
  [new RegExp(`^(${LABEL})\\s+notin\\s*\\(([^()]*)\\)$`), (key, values) => ({ key, values: list(values), negated: true })],
];

function list(values: string): string[] {
  return values.split(",").map((value) => value.trim());
}

function parse(part: string): Requirement {
  for (const [form, make] of FORMS) {
    const match = form.exec(part);
    if (match) {
      return make(match[1] ?? "", match[2] ?? "");
    }
  }
  throw new SyntaxError(`${JSON.stringify(part)} is not a label requirement that the test kit supports`);
}
