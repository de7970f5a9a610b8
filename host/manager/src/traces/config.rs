//! The configuration of traces: fields in the host's configuration, and OpenTelemetry's environment
//! variables.
//!
//! A field takes precedence over the variable with the same meaning. Variables without a field,
//! such as `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_BSP_SCHEDULE_DELAY`,
//! are read by the SDK itself.

use std::{path::PathBuf, time::Duration};

use http::{Uri, uri::Scheme};
use operetta_api::reasons::{self, CodedError};
use schemars::JsonSchema;
use serde::Deserialize;

/// The path for traces below an OTLP receiver's base URL.
const PATH: &str = "/v1/traces";

/// The only protocol the host supports.
const PROTOCOL: &str = "http/protobuf";

/// How long one export may take, by OpenTelemetry's default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The samplers for `OTEL_TRACES_SAMPLER`. A reconcile's span has no parent, so the prefix
/// `parentbased_` makes no difference.
const SAMPLERS: [&str; 3] = ["always_on", "always_off", "traceidratio"];

/// Traces of reconciles, which the host sends to an OpenTelemetry Collector.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TracesConfig {
    /// The base URL of a receiver of OTLP over HTTP, such as `http://collector.observability:4318`,
    /// to which the host adds `/v1/traces`. If left out, that of the environment variable
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`. Without any, nothing
    /// is traced.
    pub endpoint: Option<String>,
    /// The share of reconciles that are traced. If left out, that of `OTEL_TRACES_SAMPLER` and
    /// `OTEL_TRACES_SAMPLER_ARG`; without them, all.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample_ratio: Option<f64>,
    /// The certificates of the authorities, in PEM, by which an `https` receiver is known. If left
    /// out, those of `OTEL_EXPORTER_OTLP_CERTIFICATE`; without it, the system's.
    pub ca_file: Option<PathBuf>,
}

/// Where traces are sent, and the share of reconciles to trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The URL that receives traces.
    pub endpoint: Uri,
    /// The share of reconciles to trace, from 0 to 1.
    pub ratio: f64,
    /// A file with certificates of authorities; None for the system's.
    pub ca_file: Option<PathBuf>,
    /// How long one export may take, including all attempts.
    pub timeout: Duration,
}

/// The environment: returns a variable's value.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl TracesConfig {
    /// Returns the settings in this environment, or None if nothing is traced.
    ///
    /// # Errors
    /// With the code `InvalidHostConfig`, naming the field or the variable.
    pub(crate) fn settings(
        &self,
        variables: Variables<'_>,
    ) -> Result<Option<Settings>, CodedError> {
        let variable = |name: &str| {
            variables(name)
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let ratio = match self.sample_ratio {
            Some(ratio) => check_ratio("traces.sampleRatio", &ratio.to_string(), Some(ratio))?,
            None => sampler(&variable)?,
        };
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let endpoint = match self.endpoint.as_deref().filter(|text| !text.is_empty()) {
            Some(base) => Some(endpoint("traces.endpoint", base, true)?),
            None => endpoint_of(&variable)?,
        };
        let Some(endpoint) = endpoint.filter(|_| !is_disabled) else {
            return Ok(None);
        };

        check_protocol(&variable)?;
        let ca_file = self
            .ca_file
            .clone()
            .or_else(|| of_traces(&variable, "CERTIFICATE").map(|(_, file)| file.into()));
        let millis = of_traces(&variable, "TIMEOUT").and_then(|(_, text)| text.parse().ok());
        let timeout = millis.map_or(DEFAULT_TIMEOUT, Duration::from_millis);

        Ok(Some(Settings {
            endpoint,
            ratio,
            ca_file,
            timeout,
        }))
    }
}

/// Returns the name and value of an exporter's variable: the one for traces, or else the one for
/// all signals.
fn of_traces(variable: Variables<'_>, suffix: &str) -> Option<(String, String)> {
    let names = [
        format!("OTEL_EXPORTER_OTLP_TRACES_{suffix}"),
        format!("OTEL_EXPORTER_OTLP_{suffix}"),
    ];
    names
        .into_iter()
        .find_map(|name| variable(&name).map(|value| (name, value)))
}

/// Returns the endpoint in the environment. The variable for traces has the full URL, the one for
/// all signals a base URL.
fn endpoint_of(variable: Variables<'_>) -> Result<Option<Uri>, CodedError> {
    let found = of_traces(variable, "ENDPOINT");
    found
        .map(|(name, url)| endpoint(&name, &url, !name.contains("TRACES")))
        .transpose()
}

fn endpoint(name: &str, url: &str, is_base: bool) -> Result<Uri, CodedError> {
    if url.contains(['@', '?']) {
        // Don't quote it: it may contain a password.
        return Err(invalid(format!(
            "{name} contains credentials or a query: use OTEL_EXPORTER_OTLP_HEADERS"
        )));
    }

    let full_url = match url.trim_end_matches('/') {
        base if is_base && !base.ends_with(PATH) => format!("{base}{PATH}"),
        _ => url.to_owned(),
    };
    let is_http = |uri: &Uri| {
        uri.scheme()
            .is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme))
    };
    let uri = full_url
        .parse::<Uri>()
        .ok()
        .filter(|uri| is_http(uri) && uri.host().is_some_and(|host| !host.is_empty()));
    let example = "use a URL such as http://collector.observability:4318";
    uri.ok_or_else(|| invalid(format!("{name} is {url:?}: {example}")))
}

fn invalid(message: String) -> CodedError {
    reasons::INVALID_HOST_CONFIG.error(message)
}

/// Checks the protocol, if the environment sets one.
fn check_protocol(variable: Variables<'_>) -> Result<(), CodedError> {
    match of_traces(variable, "PROTOCOL") {
        Some((name, protocol)) if protocol != PROTOCOL => Err(invalid(format!(
            "{name} is {protocol:?}: the host sends {PROTOCOL}, which a collector receives on port 4318 by default"
        ))),
        _ => Ok(()),
    }
}

/// Returns the share of reconciles for the environment's sampler.
fn sampler(variable: Variables<'_>) -> Result<f64, CodedError> {
    let Some(sampler) = variable("OTEL_TRACES_SAMPLER") else {
        return Ok(1.0);
    };
    match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
        "always_on" => Ok(1.0),
        "always_off" => Ok(0.0),
        "traceidratio" => match variable("OTEL_TRACES_SAMPLER_ARG") {
            Some(ratio) => check_ratio("OTEL_TRACES_SAMPLER_ARG", &ratio, ratio.parse().ok()),
            None => Ok(1.0),
        },
        _ => {
            let known = SAMPLERS.join(", ");
            Err(invalid(format!(
                "OTEL_TRACES_SAMPLER is {sampler:?}: use one of {known}"
            )))
        }
    }
}

fn check_ratio(name: &str, given: &str, ratio: Option<f64>) -> Result<f64, CodedError> {
    let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| invalid(format!("{name} is {given}: use a number from 0 to 1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration in YAML, the environment, and a text of the result.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

    /// Reads a configuration in YAML, in an environment of these variables.
    fn read(config: &str, variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let config: TracesConfig =
            serde_yaml_ng::from_str(config).map_err(|error| error.to_string())?;
        let value = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        config.settings(&value).map_err(|error| error.message)
    }

    #[test]
    fn nothing_is_traced_without_an_endpoint() {
        assert_eq!(read("{}", &[]), Ok(None));
        assert_eq!(
            read(
                "{sampleRatio: 0.5}",
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]
            ),
            Ok(None)
        );
        assert_eq!(
            read(
                "{endpoint: 'http://c:4318'}",
                &[("OTEL_SDK_DISABLED", "TRUE")]
            ),
            Ok(None)
        );
    }

    #[test]
    fn base_urls_get_the_path_of_traces() {
        let endpoint = |config: &str, variables: &[(&str, &str)]| {
            read(config, variables)
                .map(|settings| settings.map(|settings| settings.endpoint.to_string()))
        };
        let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4318/custom");
        let of_all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://g/otlp/");
        let cases: &[Case<'_>] = &[
            (
                "{endpoint: 'http://c:4318'}",
                &[of_traces, of_all],
                "http://c:4318/v1/traces",
            ),
            (
                "{endpoint: 'http://c:4318/v1/traces'}",
                &[],
                "http://c:4318/v1/traces",
            ),
            ("{}", &[of_traces, of_all], "http://t:4318/custom"),
            ("{}", &[of_all], "https://g/otlp/v1/traces"),
            (
                "{endpoint: 'http://[::1]:4318/'}",
                &[],
                "http://[::1]:4318/v1/traces",
            ),
        ];

        for (config, variables, expected) in cases {
            let expected = Ok(Some((*expected).to_owned()));
            assert_eq!(
                endpoint(config, variables),
                expected,
                "{config} {variables:?}"
            );
        }
    }

    #[test]
    fn environment_sets_what_the_configuration_leaves_out() {
        let variables = [
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
        ];
        let settings = read("{endpoint: 'http://c:4318'}", &variables)
            .expect("valid")
            .expect("traced");
        assert_eq!(
            (settings.ratio, settings.timeout),
            (0.25, Duration::from_millis(2500))
        );
        assert_eq!(settings.ca_file, Some("/ca.pem".into()));

        let settings = read(
            "{endpoint: 'http://c:4318', sampleRatio: 0, caFile: /own.pem}",
            &variables,
        );
        let settings = settings.expect("valid").expect("traced");
        assert_eq!(
            (settings.ratio, settings.ca_file),
            (0.0, Some("/own.pem".into()))
        );

        let off = read(
            "{endpoint: 'http://c:4318'}",
            &[("OTEL_TRACES_SAMPLER", "always_off")],
        );
        assert_eq!(off.expect("valid").expect("traced").ratio, 0.0);
    }

    #[test]
    fn invalid_values_are_named() {
        const GRPC: &[(&str, &str)] = &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        const SAMPLER: &[(&str, &str)] = &[("OTEL_TRACES_SAMPLER", "xray")];
        const ARGUMENT: &[(&str, &str)] = &[
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "1%"),
        ];

        let cases: &[Case<'_>] = &[
            (
                "{endpoint: 'collector:4317'}",
                &[],
                "traces.endpoint is \"collector:4317\": use a URL such as http://",
            ),
            (
                "{endpoint: 'grpc://c:4317'}",
                &[],
                "use a URL such as http://",
            ),
            (
                "{endpoint: 'http://'}",
                &[],
                "traces.endpoint is \"http://\"",
            ),
            (
                "{endpoint: 'http://me:s3cret@c:4318'}",
                &[],
                "traces.endpoint contains credentials",
            ),
            (
                "{endpoint: 'http://c', sampleRatio: 1.5}",
                &[],
                "traces.sampleRatio is 1.5: use a number from 0 to 1",
            ),
            ("{sampleRatio: -0.1}", &[], "traces.sampleRatio is -0.1"),
            ("{sampleRatio: .nan}", &[], "traces.sampleRatio is NaN"),
            ("{protocol: grpc}", &[], "unknown field `protocol`"),
            (
                "{endpoint: 'http://c'}",
                GRPC,
                "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\": the host sends http/protobuf",
            ),
            (
                "{}",
                SAMPLER,
                "OTEL_TRACES_SAMPLER is \"xray\": use one of always_on",
            ),
            (
                "{}",
                ARGUMENT,
                "OTEL_TRACES_SAMPLER_ARG is 1%: use a number from 0 to 1",
            ),
        ];
        for (config, variables, words) in cases {
            let error = read(config, variables).expect_err(config);
            assert!(
                error.contains(words) && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
