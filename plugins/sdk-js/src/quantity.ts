/**
 * Quantities in canonical form, as apimachinery's resource.Quantity writes them: no fractional digits, and the largest
 * suffix that keeps all digits. The API server does not convert quantities of custom resources, so compare them in this
 * form: `1024Mi` equals `1Gi`.
 */

const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** The number of nanos in one. */
const NANO = 10n ** 9n;

/**
 * Returns the canonical form of a quantity, e.g. `1Gi` for `1024Mi`, `1500m` for `1.5` and `2` for 2. Digits beyond a
 * billionth are rounded away from zero.
 *
 * @throws TypeError if the value is not a quantity.
 */
export function canonicalQuantity(quantity: string | number | bigint): string {
  const text = String(quantity);
  const match = /^([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$/.exec(text);
  const [, sign = "", whole = "", fraction = "", suffix = "", exponent] = match ?? [];
  if (!match || (whole === "" && fraction === "")) {
    throw new TypeError(`${JSON.stringify(text)} is not a quantity such as 100m, 2 or 1Gi`);
  }
  const digits = BigInt(whole + fraction);
  const binary = suffix.endsWith("i");
  const nanos = binary
    ? ratio(digits * NANO * 1024n ** BigInt(BINARY.indexOf(suffix)), 10n ** BigInt(fraction.length))
    : decimalNanos(digits, exponent === undefined ? 3 * DECIMAL.indexOf(suffix) - 9 : Number(exponent), fraction.length);
  if (nanos === 0n) {
    return "0";
  }
  const minus = sign === "-" ? "-" : "";
  if (exponent !== undefined) {
    return minus + decimal(nanos, (thousands) => (thousands === 3 ? "" : `e${3 * thousands - 9}`), Infinity);
  }
  // Small and fractional binary quantities have no binary form.
  if (binary && nanos >= 1024n * NANO && nanos % NANO === 0n) {
    let value = nanos / NANO;
    let step = 0;
    while (value % 1024n === 0n && step < BINARY.length - 1) {
      value /= 1024n;
      step += 1;
    }
    return minus + value + (BINARY[step] ?? "");
  }
  return minus + decimal(nanos, (thousands) => DECIMAL[thousands] ?? "", DECIMAL.length - 1);
}

function decimal(nanos: bigint, suffix: (thousands: number) => string, most: number): string {
  let value = nanos;
  let thousands = 0;
  while (value % 1000n === 0n && thousands < most) {
    value /= 1000n;
    thousands += 1;
  }
  return value + suffix(thousands);
}

function decimalNanos(digits: bigint, exponent: number, fractionDigits: number): bigint {
  const power = exponent + 9 - fractionDigits;
  return power >= 0 ? digits * 10n ** BigInt(power) : ratio(digits, 10n ** BigInt(-power));
}

/** Returns the quotient, rounded away from zero. */
function ratio(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
