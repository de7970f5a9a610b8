// The command line of each component: the only place where our control plane
// differs from the defaults. No I/O.

package supervisor

import (
	"fmt"
	"strings"
)

// controllers lists the controllers whose work tests of operators observe. It leaves
// out those that need machines, clouds, certificates or time (node life cycle,
// routes, CSRs, autoscaling, attaching volumes).
var controllers = []string{
	"clusterrole-aggregation-controller", // fills the roles admin, edit and view
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",      // without these two, a deleted
	"persistentvolumeclaim-protection-controller", // volume or claim is never removed
	"replicaset-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
}

// arguments returns program's arguments (without its name).
func arguments(program string, o options, dir layout, at ports) []string {
	switch program {
	case etcd:
		client, peer := "http://"+loopback(at.EtcdClient), "http://"+loopback(at.EtcdPeer)
		return []string{
			"--name=default",
			"--data-dir=" + dir.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--unsafe-no-fsync", // the data outlives processes, not a power cut
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		}
	case apiserver:
		return apiserverArguments(o, dir, at)
	case controller:
		return append(clientArguments(dir, program),
			"--controllers="+strings.Join(controllers, ","),
			"--service-account-private-key-file="+dir.saKey(),
			"--root-ca-file="+dir.ca(),
		)
	case scheduler:
		return clientArguments(dir, program)
	case kwok:
		return []string{
			"--kubeconfig=" + dir.componentKubeconfig(program),
			"--config=" + stagesFile,
			"--manage-all-nodes=true",
			"--node-ip=127.0.0.1",
			"--node-port=0", // or it listens on all interfaces
			"--server-address=",
		}
	}
	panic(fmt.Sprintf("no arguments for %q", program))
}

func apiserverArguments(o options, dir layout, at ports) []string {
	// The taint would keep Pods off the Node: the controller that removes it does
	// not run.
	disabled := "TaintNodesByCondition"
	if !o.with[controller] {
		disabled += ",ServiceAccount" // nothing creates the account it requires
	}
	all := []string{
		"--etcd-servers=http://" + loopback(at.EtcdClient),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", at.APIServer),
		"--tls-cert-file=" + dir.serverCert(),
		"--tls-private-key-file=" + dir.serverKey(),
		"--cert-dir=" + dir.path(),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + dir.saKey(),
		"--service-account-signing-key-file=" + dir.saKey(),
		"--token-auth-file=" + dir.tokens(),
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
		"--disable-admission-plugins=" + disabled,
	}
	if o.authorization == "" {
		all = append(all, "--authorization-mode=RBAC")
	} else {
		all = append(all, "--authorization-config="+o.authorization)
	}
	if o.egress != "" {
		all = append(all, "--egress-selector-config-file="+o.egress)
	}
	if o.audit {
		all = append(all,
			"--audit-policy-file="+dir.auditPolicy(),
			"--audit-log-path="+dir.auditLog(),
			"--audit-log-mode=blocking",   // a request's line is written before its response
			"--audit-log-maxsize=1000000", // MB: one file, whatever the test does
		)
	}
	return all
}

// clientArguments returns the arguments of the controller manager and the scheduler:
// no listener, no election, and no client-side limit that would distort a test's
// measurements.
func clientArguments(dir layout, program string) []string {
	return []string{
		"--kubeconfig=" + dir.componentKubeconfig(program),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}
