// Package controllerruntime runs reconcilers for sigs.k8s.io/controller-runtime as an Operetta plugin. Their source
// does not change, including SetupWithManager. Package main becomes
//
//	func init() {
//		controllerruntime.Run(func(mgr ctrl.Manager) error {
//			return (&controller.FooReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)
//		}, controllerruntime.Options{AddToScheme: []controllerruntime.AddToScheme{examplev1.AddToScheme}})
//	}
//
//	func main() {}
//
// The manager that setup receives records the controllers (For, Owns, Watches, predicates, workers, rate limiter, field
// indexers) and declares them in the plugin's manifest. Handlers that are Go code, such as those of
// handler.EnqueueRequestsFromMapFunc, run for each event in an instance of their own. Its client reads from the host's cache, its API reader from the
// API server. Both act as the plugin's ServiceAccount. Errors are apimachinery's. Lines of logr, klog and log/slog, and
// events of both recorders, become the plugin's log lines and Events.
//
// A plugin does not support custom Runnables, webhooks, and predicates that are Go functions. They are errors when the host
// reads the manifest. A handler that calls the API is an error when it runs: it has only the object of the event.
package controllerruntime
