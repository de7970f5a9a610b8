// Package operetta lets you write Operetta plugins in Go: controllers that a host watches, queues, caches and retries
// for you, compiled to one .wasm.
//
//	func init() { operetta.Serve(plugin) }
//
//	func plugin() *operetta.Plugin {
//		return operetta.NewPlugin(operetta.For("greeting", reconcile).Owns(operetta.Of[ConfigMap]()))
//	}
//
//	func reconcile(ctx context.Context, client *operetta.Client, greeting *Greeting) (operetta.Result, error) { … }
//
// Each reconcile runs in a fresh instance: nothing in memory survives it, so keep state in objects. A deleted key is
// still delivered. What log/slog and log write appears in `operetta logs PLUGIN`. The package operettatest runs
// reconcilers in `go test`, without a cluster.
//
// This module has no dependencies. For controller-runtime's client, types and helpers see
// operetta.dev/sdk-go/controllerruntime.
package operetta
