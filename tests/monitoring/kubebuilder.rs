//! The expressions of the two Grafana dashboards that kubebuilder's plugin
//! `grafana.kubebuilder.io/v1-alpha` writes, controller-runtime-metrics.json and
//! controller-resources-metrics.json (The Kubernetes Authors, Apache-2.0).

/// The expressions, each with the title of its panel.
pub const EXPRESSIONS: [(&str, &str); 15] = [
    (
        "Number of workers in use",
        r#"controller_runtime_active_workers{job="$job", namespace="$namespace"}"#,
    ),
    (
        "Total Reconciliation Count Per Controller",
        r#"sum(rate(controller_runtime_reconcile_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)"#,
    ),
    (
        "Reconciliation Error Count Per Controller",
        r#"sum(rate(controller_runtime_reconcile_errors_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)"#,
    ),
    (
        "WorkQueue Depth",
        r#"workqueue_depth{job="$job", namespace="$namespace"}"#,
    ),
    (
        "Seconds For Items Stay In Queue P50",
        r#"histogram_quantile(0.50, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Seconds For Items Stay In Queue P90",
        r#"histogram_quantile(0.90, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Seconds For Items Stay In Queue P99",
        r#"histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Work Queue Add Rate",
        r#"sum(rate(workqueue_adds_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)"#,
    ),
    (
        "Unfinished Seconds",
        r#"rate(workqueue_unfinished_work_seconds{job="$job", namespace="$namespace"}[5m])"#,
    ),
    (
        "Seconds Processing Items From WorkQueue P50",
        r#"histogram_quantile(0.50, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Seconds Processing Items From WorkQueue P90",
        r#"histogram_quantile(0.90, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Seconds Processing Items From WorkQueue P99",
        r#"histogram_quantile(0.99, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    ),
    (
        "Work Queue Retries Rate",
        r#"sum(rate(workqueue_retries_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)"#,
    ),
    (
        "Controller CPU Usage",
        r#"rate(process_cpu_seconds_total{job="$job", namespace="$namespace", pod="$pod"}[5m]) * 100"#,
    ),
    (
        "Controller Memory Usage",
        r#"process_resident_memory_bytes{job="$job", namespace="$namespace", pod="$pod"}"#,
    ),
];
