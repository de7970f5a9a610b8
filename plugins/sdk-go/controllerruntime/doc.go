// Package controllerruntime runs reconcilers that were written for sigs.k8s.io/controller-runtime as an Operetta plugin:
// their source stays as it is, SetupWithManager included, and package main becomes
//
//	func init() {
//		controllerruntime.Run(func(mgr ctrl.Manager) error {
//			return (&controller.FooReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)
//		}, controllerruntime.Options{AddToScheme: []controllerruntime.AddToScheme{examplev1.AddToScheme}})
//	}
//
//	func main() {}
//
// The manager that setup gets records what the real builder asks of it (For, Owns, Watches, predicates, workers, rate
// limiter, field indexers) and tells the host so. Its client reads from the host's cache, its API reader from the API
// server; both act as the plugin's ServiceAccount. Errors are apimachinery's. Logs of logr, klog and log/slog, and
// events of both recorders, go where the plugin's go.
//
// What a plugin has no place for is an error that names it, when the host asks what the plugin is: Runnables of one's
// own, webhooks, handlers that map events with a Go function, predicates that are Go functions.
package controllerruntime
