// Plugins as the API server has them.

import type { Status } from "../src/model";

function plugin(namespace: string, name: string, status: Status) {
  const metadata = { name, namespace, uid: name, creationTimestamp: "2026-11-22T10:00:00Z" };
  return { apiVersion: "operetta.dev/v1alpha1", kind: "Plugin", metadata, spec: {}, status };
}

function condition(type: string, status: string, reason: string, message: string) {
  return { type, status, reason, message, lastTransitionTime: "2026-11-22T10:01:00Z" };
}

const controller = { name: "web", for: "Foo.example.com/v1", reconciles: 120, errors: 3, queued: 2, failing: 0 };

/** A Plugin that is ready. */
export const healthy = plugin("team", "web", {
  conditions: [condition("Ready", "True", "Running", "controllers: web"), condition("Degraded", "False", "AsExpected", "")],
  controllers: [controller],
  reason: "Running",
  message: "controllers: web",
});

/** A Plugin one of whose keys fails. */
export const failing = plugin("shop", "cart", {
  conditions: [
    condition("Ready", "True", "Running", "controllers: web"),
    condition("Degraded", "True", "ReconcileErrors", "reconcile of shop/a failed: quota exceeded"),
  ],
  controllers: [{ ...controller, failing: 1, lastError: "shop/a: failed to apply: quota exceeded" }],
  reason: "ReconcileErrors",
  message: "reconcile of shop/a failed: quota exceeded",
});
