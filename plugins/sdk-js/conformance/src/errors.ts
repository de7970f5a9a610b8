/** Errors: each variant of the contract as a typed error of the SDK. */
import { ConfigMap, Secret } from "@operetta/sdk/kinds";

import { type Behaviour, type Case, type Cases, errorOf, target, words } from "./types.ts";

/** Creates a ConfigMap that an admission webhook rejects, and returns the error. */
function refused(one: Case) {
  const metadata = { ...target(one), labels: { conformance: "refuse" } };
  return errorOf(() => one.ctx.create(ConfigMap, { metadata }));
}

const refusal: Behaviour = (one) => words(refused(one));

export const errorCases: Cases = {
  "error-not-found": ({ ctx, namespace }) =>
    words(errorOf(() => ctx.get(ConfigMap, { namespace, name: "no-such-object" }))),

  "error-already-exists": (one) => words(errorOf(() => one.ctx.create(ConfigMap, { metadata: target(one) }))),

  "error-conflict": (one) => {
    const map = one.ctx.get(ConfigMap, target(one));
    return words(errorOf(() => one.ctx.update({ ...map, metadata: { ...map.metadata, resourceVersion: "1" } })));
  },

  "error-invalid": ({ ctx, namespace }) => {
    const metadata = { namespace, name: "error-invalid-made", labels: { conformance: "not/a/label" } };
    const error = errorOf(() => ctx.create(ConfigMap, { metadata }));
    return `${words(error)} ${error.causes[0]?.field}`;
  },

  "error-bad-request": ({ ctx, namespace }) =>
    words(errorOf(() => ctx.list(ConfigMap, { namespace, index: { name: "no-such-index", value: "any" } }))),

  "error-forbidden": ({ ctx, namespace }) =>
    words(errorOf(() => ctx.get(Secret, { namespace, name: "hidden" }, { live: true }))),

  "error-expired": refusal,
  "error-too-many-requests": (one) => {
    const error = refused(one);
    return `${words(error)} ${error.retryAfterSeconds}`;
  },
  "error-unavailable": refusal,
  "error-timed-out": refusal,
  "error-other": refusal,
};
