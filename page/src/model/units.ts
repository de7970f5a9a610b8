// Numbers with units, short enough for a table.

const plain = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** The text of a value that the host does not know. */
export const NONE = "–";

type Maybe = number | null | undefined;

const known = (value: Maybe): value is number => typeof value === "number" && Number.isFinite(value);

/** Returns a whole number with thousands separators. */
export function count(value: Maybe): string {
  return known(value) ? plain.format(value) : NONE;
}

/** Returns three significant digits at most, without an exponent. */
export function decimal(value: Maybe): string {
  if (!known(value)) return NONE;
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return plain.format(value);
  if (Math.abs(value) < 0.01) return value > 0 ? "<0.01" : ">-0.01";
  return String(Number(value.toPrecision(3)));
}

/** Returns bytes in binary units: `3.2 MiB`. */
export function bytes(value: Maybe): string {
  if (!known(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${decimal(unit === 0 ? rest : Number(rest.toPrecision(3)))} ${units[unit]}`;
}

/** Returns milliseconds, and seconds from one second on. */
export function milliseconds(value: Maybe): string {
  if (!known(value)) return NONE;
  return value < 1000 ? `${decimal(value)} ms` : `${decimal(value / 1000)} s`;
}

/** Returns a share in percent. */
export function percent(value: Maybe): string {
  return known(value) ? `${decimal(value)} %` : NONE;
}

/** Returns a rate. */
export function rate(value: Maybe): string {
  return known(value) ? `${decimal(value)}/s` : NONE;
}

/** Returns `1 object`, `2 objects`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
