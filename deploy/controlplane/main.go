// One binary that is a whole Kubernetes control plane for tests: it runs as
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok
// or controlplane (our supervisor), whichever name it was started under.
//
// It promises to behave as upstream's own programs of those names do: each
// case below is that program's main function and nothing more. Symlinked under
// those names, its folder serves as KUBEBUILDER_ASSETS.
//
// Each runs as its own process, never as a goroutine of another: a component's
// signal handler panics when it is installed twice in one process.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, as upstream links them

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's login plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"

	"operetta.dev/deploy/controlplane/supervisor"
)

func main() {
	supervisor.DieWithSupervisor()
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl", "kubectl.exe":
		runKubectl()
	case "kwok":
		os.Exit(runKwok())
	case "controlplane":
		os.Exit(supervisor.Main(os.Args))
	default:
		fmt.Fprintf(os.Stderr, "controlplane: started as %q; link it as one of: %s\n", name, strings.Join([]string{
			"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "controlplane",
		}, ", "))
		os.Exit(2)
	}
}

func runKubectl() {
	// As upstream: the verbosity has to be known before the command is built.
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl:", err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func runKwok() int {
	// component-base puts --version on the process-wide flag set; kwok's cobra
	// command would take it for its own and fail on the clash.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)

	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}

	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		_, _ = os.Stderr.WriteString(flags.FlagUsages())
		logger.Error("Init config flags", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("Execute exit", "err", err)
		return 1
	}
	return 0
}
