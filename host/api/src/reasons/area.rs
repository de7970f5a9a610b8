//! The areas of codes.

/// The subject of a code, which decides where the code is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// A Plugin without a problem.
    State,
    /// Consent to the Plugin, and permissions.
    Consent,
    /// The source of the component.
    Source,
    /// The component itself.
    Component,
    /// The controllers and their watches.
    Watches,
    /// The plugin's configuration.
    Configuration,
    /// A drop-in ConfigMap.
    DropIn,
    /// Reconciles and mappings.
    Reconcile,
    /// The readiness checks of a host.
    Readiness,
    /// The start and the end of a host.
    Host,
    /// The commands.
    Commands,
}

impl Area {
    /// Returns the area's heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::State => "State of a Plugin",
            Self::Consent => "Consent and permissions",
            Self::Source => "Source of the code",
            Self::Component => "The component",
            Self::Watches => "Controllers, watches and quotas",
            Self::Configuration => "Configuration",
            Self::DropIn => "Drop-in ConfigMaps",
            Self::Reconcile => "Reconciles and mappings",
            Self::Readiness => "Readiness checks of a host",
            Self::Host => "Start and end of a host",
            Self::Commands => "Commands",
        }
    }

    /// Returns the places where a code of this area is shown, as one sentence.
    pub fn shown(self) -> &'static str {
        match self {
            Self::State => "Conditions of the Plugin. `Loaded` is also an Event on it.",
            Self::Consent => {
                "Conditions `Ready` and `Degraded` of the Plugin, and an Event on it; before there is a Plugin, an Event on the \
                 drop-in ConfigMap."
            }
            Self::Source => {
                "Condition `Degraded` of the Plugin, and `Loaded` if no earlier code runs; Events on the Plugin and its \
                 ConfigMap."
            }
            Self::Component => {
                "Condition `Degraded` of the Plugin, and `Loaded` if no earlier code runs; Events on the Plugin and its \
                 ConfigMap; and the error of `operetta check`."
            }
            Self::Watches => "Conditions `Ready` and `Degraded` of the Plugin, and an Event on it.",
            Self::Configuration => {
                "Condition `Degraded` of the Plugin, and `Ready` if it does not run with an earlier configuration; an Event \
                 on it."
            }
            Self::DropIn => "An Event on the ConfigMap.",
            Self::Reconcile => "Condition `Degraded` of the Plugin.",
            Self::Readiness => "`/readyz?verbose` of the host, and its log.",
            Self::Host => {
                "The last line of the host's log, in parentheses; the process exits with 1."
            }
            Self::Commands => "The error of the command, in parentheses.",
        }
    }
}
