//! The cells of the table: each way to see or do something, and the question of RBAC that decides
//! it.

use crate::stage::Stage;

/// A kind of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Deployment,
    Node,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::ConfigMap, Self::Secret, Self::Deployment, Self::Node];

    pub fn api_version(self) -> &'static str {
        if self == Self::Deployment {
            "apps/v1"
        } else {
            "v1"
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Deployment => "Deployment",
            Self::Node => "Node",
        }
    }

    pub fn group(self) -> &'static str {
        if self == Self::Deployment { "apps" } else { "" }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Deployment => "deployments",
            Self::Node => "nodes",
        }
    }

    pub fn namespaced(self) -> bool {
        self != Self::Node
    }
}

/// How it is seen or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    CachedGet,
    /// Of an object that does not exist: refused like one that does.
    CachedGetAbsent,
    LiveGet,
    RawGet,
    CachedList,
    ListByOwner,
    ListByIndex,
    LiveList,
    RawList,
    /// An event of the kind reaches the handler.
    Event,
    /// An event of an owned object becomes a key of its owner.
    Mapping,
    /// Writes the status subresource.
    Status,
}

impl Way {
    const READS: [Self; 10] = [
        Self::CachedGet,
        Self::CachedGetAbsent,
        Self::LiveGet,
        Self::RawGet,
        Self::CachedList,
        Self::ListByOwner,
        Self::ListByIndex,
        Self::LiveList,
        Self::RawList,
        Self::Event,
    ];
}

/// One look: an account, a way, a kind, a namespace. None is all namespaces, or the cluster.
#[derive(Clone, Debug)]
pub struct Cell {
    pub account: &'static str,
    pub way: Way,
    pub kind: Kind,
    pub location: Option<String>,
}

/// What RBAC is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub user: String,
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Question {
    pub fn events(stage: &Stage<'_>, account: &str, location: &str) -> Self {
        Self {
            user: stage.user(account),
            verb: "create",
            group: "",
            resource: "events",
            subresource: None,
            namespace: Some(location.to_owned()),
            name: None,
        }
    }

    /// The arguments of kubectl.
    pub fn can_i(&self) -> Vec<String> {
        let dot = if self.group.is_empty() { "" } else { "." };
        let name = self
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!("/{name}"));
        let what = format!("{}{dot}{}{name}", self.resource, self.group);
        let mut args = ["auth", "can-i", self.verb, &what, "--as", &self.user]
            .map(str::to_owned)
            .to_vec();
        args.extend(
            self.subresource
                .map(|subresource| format!("--subresource={subresource}")),
        );
        match &self.namespace {
            Some(namespace) => args.extend(["-n".to_owned(), namespace.clone()]),
            None => args.push("--all-namespaces".to_owned()),
        }
        args
    }
}

impl Cell {
    /// What must all be allowed.
    pub fn questions(&self, stage: &Stage<'_>) -> Vec<Question> {
        let ask = |verb, name: Option<&str>| Question {
            user: stage.user(self.account),
            verb,
            group: self.kind.group(),
            resource: self.kind.plural(),
            subresource: None,
            namespace: self.location.clone(),
            name: name.map(str::to_owned),
        };
        match self.way {
            Way::CachedGet | Way::LiveGet | Way::RawGet => {
                vec![ask("get", Some(stage.object(self.kind)))]
            }
            Way::CachedGetAbsent => vec![ask("get", Some("absent"))],
            Way::CachedList
            | Way::ListByOwner
            | Way::ListByIndex
            | Way::LiveList
            | Way::RawList => {
                vec![ask("list", None)]
            }
            Way::Event | Way::Mapping => vec![ask("list", None), ask("watch", None)],
            Way::Status => {
                vec![Question {
                    subresource: Some("status"),
                    ..ask("patch", Some(stage.object(self.kind)))
                }]
            }
        }
    }

    /// What of which one suffices: a cached list of all namespaces shows those that may be seen.
    pub fn alternatives(&self, stage: &Stage<'_>) -> Vec<Question> {
        self.parts(stage)
            .into_iter()
            .map(|(_, question)| question)
            .collect()
    }

    /// What suffices together: events of all namespaces contain those of each.
    pub fn wider(&self, stage: &Stage<'_>) -> Vec<Question> {
        let is_part = matches!(self.way, Way::Event | Way::Mapping) && self.location.is_some();
        if is_part {
            Self {
                location: None,
                ..self.clone()
            }
            .questions(stage)
        } else {
            Vec::new()
        }
    }

    /// The namespaces that a list of all of them is made of, and what must be allowed for each.
    pub fn parts(&self, stage: &Stage<'_>) -> Vec<(String, Question)> {
        let shown = matches!(
            self.way,
            Way::CachedList | Way::ListByOwner | Way::ListByIndex | Way::RawList
        );
        if !shown || !self.kind.namespaced() || self.location.is_some() {
            return Vec::new();
        }
        let one = |location: &String| {
            let cell = Self {
                location: Some(location.clone()),
                ..self.clone()
            };
            cell.questions(stage)
                .into_iter()
                .map(|question| (location.clone(), question))
                .next()
        };
        stage.locations.iter().filter_map(one).collect()
    }
}

/// All cells of one account.
pub fn cells_of(account: &'static str, locations: &[String]) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |way, kind, location: Option<&String>| {
        cells.push(Cell {
            account,
            way,
            kind,
            location: location.cloned(),
        });
    };
    for kind in Kind::ALL {
        if !kind.namespaced() {
            Way::READS.iter().for_each(|way| add(*way, kind, None));
            continue;
        }
        for location in locations {
            Way::READS
                .iter()
                .for_each(|way| add(*way, kind, Some(location)));
        }
        for way in [
            Way::CachedList,
            Way::ListByOwner,
            Way::ListByIndex,
            Way::LiveList,
            Way::RawList,
        ] {
            add(way, kind, None);
        }
    }
    for location in locations {
        add(Way::Mapping, Kind::Deployment, Some(location));
        add(Way::Status, Kind::Deployment, Some(location));
    }
    cells
}
