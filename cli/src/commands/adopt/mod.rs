//! `operetta adopt DIR`: turns an operator's Deployment into a Plugin.
//!
//! The libraries of kustomize and Helm render the manifests ([`helper`]), and the operator's
//! container becomes a process ([`convert`]). Everything else is printed as it was rendered, except
//! that the ServiceAccount consents, that the Namespace opts in, and that the operator's webhook
//! configurations and conversions are left out, since nobody would serve them ([`others`]). A report of what the
//! operator needs, in its code and its manifests, comes first ([`needs`], [`report`]).

mod convert;
mod helper;
mod manifests;
mod needs;
mod others;
mod report;
mod unadopt;

use std::path::Path;

use anyhow::{Context, Result};
use operetta_core::remedy::Command;
use operetta_host::terminal;
use serde_json::Value;

use self::{
    convert::{Converted, Operator, name_of},
    helper::{Helper, Hook, Kind, Render},
    manifests::Manifests,
    report::{Finding, Verdict, table},
};
use super::{
    build::{Progress, Project, build_with, survey},
    output_file::write,
    print, print_document,
};
use crate::args::AdoptArgs;

/// The namespace of a chart's release, as Helm has it.
const DEFAULT_NAMESPACE: &str = "default";

/// Prints the manifests with a Plugin in place of the Deployment.
///
/// # Errors
/// Returns an error if there are no manifests, if they can't be rendered, if it isn't clear which
/// container is the operator, or if the operator can't be built.
pub async fn adopt(args: &AdoptArgs) -> Result<()> {
    if let Some(file) = &args.unadopt {
        return unadopt::unadopt(file);
    }

    let dir = args
        .dir
        .canonicalize()
        .with_context(|| format!("failed to open the folder {}", args.dir.display()))?;
    let has_code = dir.join("go.mod").is_file();
    let project = (has_code || !args.no_build)
        .then(|| Project::find_go(&dir))
        .transpose()?;
    let helper = Helper::find(&dir)?;

    let rendered = Input::read(args, &dir, &helper);
    let code = |mounts: &[String]| -> Result<String> {
        let Some(project) = &project else {
            return Ok(String::new());
        };
        let survey = survey(project, &args.build(None))?;
        let findings = needs::findings(&helper, &project.dir, &survey, mounts)?;
        Ok(table("The code:", &findings))
    };

    let input = match rendered {
        Err(error) if args.check => {
            print(&code(&[])?)?;
            return Err(error);
        }
        rendered => rendered?,
    };
    let operator = match input.operator(args) {
        Err(error) if args.check => {
            print(&code(&[])?)?;
            return Err(error);
        }
        operator => operator?,
    };

    let replaced = Replaced::new(&input.objects, operator.workload(), args.with_webhooks);
    let name = replaced.workload["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let component = args
        .output
        .clone()
        .unwrap_or_else(|| dir.join("build"))
        .join(format!("{name}.wasm"));
    let source = format!("{name}.wasm");

    let code = code(&operator.mounts())?;
    let converted = operator.convert(&source, &replaced.left_out());
    let findings = input.findings(&replaced, converted.as_ref());
    let report = code + &table(&format!("The manifests ({}):", input.name), &findings);
    if args.check {
        return print(&report);
    }
    eprint!("{}", terminal::lines(&report));
    let mut converted = converted?;

    if !args.no_build {
        build_with(&args.build(Some(component.clone())), Progress::Stderr).await?;
        let built = std::fs::read(&component)
            .with_context(|| format!("failed to read {}", component.display()))?;
        converted.plugin["spec"]["digest"] = operetta_wasm::digest(&built).into();
    }

    let (documents, steps) = input.replace(&replaced, &converted, &helper)?;
    let output = args
        .output
        .as_ref()
        .map(|folder| folder.join("manifests.yaml"));
    match &output {
        Some(file) => write(file, documents.as_bytes())?,
        None => print_document(&documents)?,
    }

    let built = (!args.no_build).then_some(component.as_path());
    eprint!(
        "{}",
        terminal::lines(&next(&steps, built, output.as_deref()))
    );
    Ok(())
}

/// What a Plugin replaces. It keeps all of it, for the way back.
struct Replaced {
    workload: Value,
    /// The webhook configurations that are left out.
    webhooks: Vec<Value>,
    /// The conversions that are left out, as parts of their CustomResourceDefinitions.
    conversions: Vec<Value>,
}

impl Replaced {
    fn new(objects: &[Value], workload: &Value, with_webhooks: bool) -> Self {
        let (webhooks, conversions) = match with_webhooks {
            true => (Vec::new(), Vec::new()),
            false => (
                others::webhooks(objects, workload),
                others::conversions(objects, workload),
            ),
        };
        Self {
            workload: workload.clone(),
            webhooks: webhooks.into_iter().cloned().collect(),
            conversions,
        }
    }

    /// What is left out beside the workload.
    fn left_out(&self) -> Vec<Value> {
        [&self.webhooks[..], &self.conversions].concat()
    }
}

/// The rendered manifests of an operator.
struct Input {
    /// The path as the user knows it, relative to the project.
    name: String,
    objects: Vec<Value>,
    /// The YAML of each object as it was rendered; None once the object has been changed.
    texts: Vec<Option<String>>,
    hooks: Vec<Hook>,
}

impl Input {
    /// Finds the manifests and renders them.
    fn read(args: &AdoptArgs, dir: &Path, helper: &Helper) -> Result<Self> {
        let Manifests { kind, path } = Manifests::find(dir, args.manifests.as_deref())?;
        if kind != Kind::Chart
            && (!args.values.is_empty() || !args.set.is_empty() || args.release.is_some())
        {
            anyhow::bail!(
                "{} isn't a Helm chart, and --values, --set and --release are for charts",
                path.display()
            );
        }

        let namespace = match (&args.namespace, &kind) {
            (Some(namespace), _) => Some(namespace.as_str()),
            (None, Kind::Chart) => Some(DEFAULT_NAMESPACE),
            (None, _) => None,
        };
        let rendered = helper.render(&Render {
            kind: &kind,
            path: &path,
            values: &args.values,
            set: &args.set,
            release: args.release.as_deref().unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
        })?;

        let (objects, texts) = rendered
            .objects
            .into_iter()
            .map(|object| (object.object, Some(object.text)))
            .unzip();
        let mut input = Self {
            name: path
                .strip_prefix(dir)
                .unwrap_or(&path)
                .display()
                .to_string(),
            objects,
            texts,
            hooks: rendered.hooks.unwrap_or_default(),
        };
        if let Some(namespace) = namespace {
            input.place(namespace);
        }
        Ok(input)
    }

    /// Puts objects without a namespace into this one, as `helm install` does.
    fn place(&mut self, namespace: &str) {
        let definitions: Vec<_> = self
            .objects
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .cloned()
            .collect();
        let definitions: Vec<_> = definitions.iter().collect();

        for (object, text) in self.objects.iter_mut().zip(&mut self.texts) {
            let is_namespaced = others::is_namespaced(object, &definitions);
            if others::place(object, namespace, is_namespaced) {
                *text = None;
            }
        }
    }

    fn operator(&self, args: &AdoptArgs) -> Result<Operator<'_>> {
        Operator::find(
            &self.objects,
            args.deployment.as_deref(),
            args.container.as_deref(),
        )
    }

    /// What becomes of the manifests, object by object.
    fn findings(
        &self,
        replaced: &Replaced,
        converted: Result<&Converted, &anyhow::Error>,
    ) -> Vec<Finding> {
        let workload = &replaced.workload;
        let mut findings = match converted {
            Ok(converted) => converted.findings.clone(),
            Err(error) => vec![Finding::new(
                Verdict::No,
                name_of(workload),
                "",
                format!("{error:#}"),
            )],
        };

        findings.extend(others::findings(
            &self.objects,
            workload,
            &replaced.left_out(),
        ));

        findings.extend(self.hooks.iter().map(|hook| {
            let note = format!(
                "a Helm hook ({}), which is left out",
                hook.events.join(", ")
            );
            Finding::new(Verdict::No, &hook.name, "", note)
        }));
        findings
    }

    /// The manifests with the Plugin in place of the Deployment, and what is left to do.
    fn replace(
        mut self,
        replaced: &Replaced,
        converted: &Converted,
        helper: &Helper,
    ) -> Result<(String, Steps)> {
        let Replaced {
            workload,
            webhooks,
            conversions,
        } = replaced;
        let Converted {
            plugin,
            service_account,
            ..
        } = converted;
        let plugin_name = plugin["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = plugin["metadata"]["namespace"].as_str();

        let mut steps = Steps {
            webhooks: webhooks.iter().map(name_of).collect(),
            workload: name_of(workload),
            namespace: namespace.map(str::to_owned),
            service_account: service_account.clone(),
            annotate: Some(plugin_name.to_owned()),
            label: true,
        };

        for (object, text) in self.objects.iter_mut().zip(&mut self.texts) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match kind {
                "ServiceAccount"
                    if name == service_account
                        && object["metadata"]["namespace"] == plugin["metadata"]["namespace"] =>
                {
                    others::consent(object, plugin_name);
                    *text = None;
                    steps.annotate = None;
                }
                "Namespace" if Some(name) == namespace => {
                    if others::opt_in(object) {
                        *text = None;
                    }
                    steps.label = false;
                }
                "CustomResourceDefinition" => {
                    // Not a guard: the match still borrows the object there.
                    let is_changed = others::without_conversion(object, conversions);
                    if is_changed {
                        *text = None;
                    }
                }
                _ => {}
            }
        }

        let all = self.objects.iter().zip(&self.texts);
        let printed: Vec<_> = all
            .filter(|(object, _)| !webhooks.contains(object))
            .collect();
        let changed: Vec<_> = printed
            .iter()
            .filter_map(|(object, text)| match text {
                _ if *object == workload => Some(plugin),
                Some(_) => None,
                None => Some(*object),
            })
            .collect();
        let mut written = helper.write(&changed)?.into_iter();

        let documents = printed.into_iter().map(|(object, text)| match text {
            Some(text) if object != workload => Ok(text.clone()),
            _ => written.next().context("an object was not written"),
        });
        let documents: Vec<_> = documents.collect::<Result<_>>()?;
        Ok((documents.join("---\n"), steps))
    }
}

/// What is left to do after the manifests are printed.
struct Steps {
    /// The webhook configurations that are left out.
    webhooks: Vec<String>,
    workload: String,
    namespace: Option<String>,
    service_account: String,
    /// The Plugin's name if its ServiceAccount isn't in the manifests and has to consent by hand.
    annotate: Option<String>,
    /// True if the namespace isn't in the manifests.
    label: bool,
}

/// The commands that the user has to run, one per line.
fn next(steps: &Steps, component: Option<&Path>, manifests: Option<&Path>) -> String {
    let namespace = steps.namespace.as_deref();
    let flags = || {
        namespace
            .into_iter()
            .flat_map(|namespace| ["-n", namespace])
    };
    let account = steps.service_account.as_str();
    let consent = steps
        .annotate
        .as_ref()
        .map(|plugin| format!("operetta.dev/allow-plugins={plugin}"));

    let mut commands = Vec::new();
    if steps.label {
        commands.push(line(
            &["kubectl", "label", "namespace"],
            &[namespace.unwrap_or("NAMESPACE")],
            ["operetta.dev/plugins=enabled"],
        ));
    }

    // Before the Deployment: once it is gone, they refuse every write.
    let delete = ["kubectl", "delete", "--ignore-not-found"];
    if !steps.webhooks.is_empty() {
        let webhooks: Vec<_> = steps
            .webhooks
            .iter()
            .map(|webhook| webhook.to_lowercase())
            .collect();
        let webhooks: Vec<_> = webhooks.iter().map(String::as_str).collect();
        commands.push(line(&delete, &webhooks, []));
    }
    let workload = steps.workload.to_lowercase();
    commands.push(line(&delete, &[workload.as_str()], flags()));

    let manifests = manifests.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
    let apply = Command::new(["kubectl", "apply", "--server-side", "-f", &manifests]);
    commands.push(apply.map_or_else(
        || {
            "(kubectl apply --server-side the file manifests.yaml in the folder of --output)"
                .to_owned()
        },
        |apply| apply.to_string(),
    ));

    if let Some(consent) = &consent {
        commands.push(line(
            &["kubectl", "annotate", "serviceaccount"],
            &[account],
            flags().chain([consent.as_str()]),
        ));
    }
    commands.push(line(&["operetta", "grant"], &[account], flags()));

    let component = match component {
        Some(file) => format!("put {}", file.display()),
        None => "build the component, put it".to_owned(),
    };
    let commands = commands
        .iter()
        .fold(String::new(), |text, command| text + "  " + command + "\n");
    format!("Next: {component} into the host's pluginDirectory, and run\n{commands}")
}

/// A command for a shell. Its names are out of somebody else's manifests: with one that no object
/// can have, there is no command.
fn line<'a>(
    command: &[&'a str],
    names: &[&'a str],
    flags: impl IntoIterator<Item = &'a str>,
) -> String {
    let is_flag = names.iter().any(|name| name.starts_with('-'));
    let arguments = command.iter().chain(names).copied().chain(flags);
    Command::new(arguments).filter(|_| !is_flag).map_or_else(
        || "(no command: the manifests have a name that Kubernetes does not accept)".to_owned(),
        |command| command.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    /// Everything that there is to do, with this name for each object.
    fn steps(name: &str) -> Steps {
        Steps {
            webhooks: vec![format!("ValidatingWebhookConfiguration/{name}")],
            workload: format!("Deployment/{name}"),
            namespace: Some(name.to_owned()),
            service_account: name.to_owned(),
            annotate: Some(name.to_owned()),
            label: true,
        }
    }

    #[test]
    fn shell_runs_nothing_out_of_a_name() {
        let said = next(&steps("a$(id)"), None, None);
        let (_, commands) = said.split_once('\n').expect("commands");

        let script = format!(
            "kubectl() {{ printf '%s|' \"$@\"; echo; }}\noperetta() {{ kubectl \"$@\"; }}\n{commands}"
        );
        let output = process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("sh");

        let expected = "label|namespace|a$(id)|operetta.dev/plugins=enabled|\n\
            delete|--ignore-not-found|validatingwebhookconfiguration/a$(id)|\n\
            delete|--ignore-not-found|deployment/a$(id)|-n|a$(id)|\n\
            apply|--server-side|-f|-|\n\
            annotate|serviceaccount|a$(id)|-n|a$(id)|operetta.dev/allow-plugins=a$(id)|\n\
            grant|a$(id)|-n|a$(id)|\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{said}");
    }

    #[test]
    fn name_that_no_object_can_have_makes_no_command() {
        for name in ["a b", "a\u{1b}[2J", "--allow=secrets"] {
            let said = next(&steps(name), None, None);
            assert!(said.contains("(no command"), "{name:?}: {said}");
            assert!(!said.contains("operetta grant"), "{name:?}: {said}");
        }
    }

    #[test]
    fn folder_with_a_space_is_named_in_words() {
        let file = Path::new("my operator/manifests.yaml");
        let said = next(&steps("a"), None, Some(file));
        assert!(said.contains("in the folder of --output"), "{said}");
        assert!(!said.contains("-f my"), "{said}");
    }
}
