import { expect, test } from "vitest";
import { commandsFor, stateOf } from "../src/model";
import { failing, healthy } from "./objects";

const texts = (...args: Parameters<typeof commandsFor>) => commandsFor(...args).map((command) => command.text);

test("the state follows the conditions", () => {
  const condition = (type: string, status: string) => ({ type, status, reason: "R", message: "", lastTransitionTime: "" });
  for (const [conditions, state] of [
    [[], "Pending"],
    [[condition("Ready", "True")], "Ready"],
    [[condition("Ready", "True"), condition("Degraded", "True")], "Degraded"],
    [[condition("Ready", "False"), condition("Degraded", "True")], "NotReady"],
    [[condition("Loaded", "True")], "Unknown"],
  ] as const) {
    expect(stateOf({ conditions: [...conditions] })).toBe(state);
  }
  expect(stateOf({})).toBe("Pending");
});

test("a failing Plugin has the commands that tell why", () => {
  expect(texts("shop", "cart", failing.status)).toEqual([
    "operetta explain ReconcileErrors",
    "operetta why cart shop/a -n shop",
    "operetta retry cart -n shop",
    "operetta logs cart -n shop -f",
  ]);
});

test("a healthy Plugin has its log only", () => {
  expect(texts("team", "web", healthy.status)).toEqual(["operetta logs web -n team -f"]);
});

test("a status written by a tenant adds nothing to a command", () => {
  const controller = { ...failing.status.controllers![0], lastError: "a/b; rm -rf ~: x" };
  const status = { ...failing.status, reason: "$(rm -rf ~) 'x", controllers: [controller] };
  expect(texts("shop", "cart", status)).toEqual([
    `operetta explain '$(rm -rf ~) '\\''x'`,
    "operetta retry cart -n shop",
    "operetta logs cart -n shop -f",
  ]);
});
