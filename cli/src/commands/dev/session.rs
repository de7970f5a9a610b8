//! A session: applies the project's objects, builds after each save, and answers keys.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::{Client, api::PropagationPolicy};
use serde_json::{Value, json};

use super::{
    super::{
        build::Project,
        objects::{self, Write},
    },
    builds::{Builder, Built},
    changes::Changes,
    keys::{Key, Keys},
    manifests::{FILES, Manifests, SAMPLE},
    view::View,
};
/// The host looks at the component again when this annotation changes.
const BUILD: &str = "dev.operetta.dev/build";

/// The work that is due.
#[derive(Clone, Copy, Debug)]
enum Work {
    Build,
    CheckTypes,
    None,
}

/// Something to react to.
enum Event {
    Pressed(Key),
    /// Files have changed.
    Saved(Vec<PathBuf>),
    Built(Built),
    /// The types are checked; has the messages if there are errors.
    Checked(Option<String>),
}

/// The state of a session.
pub struct Session {
    project: Project,
    manifests: Manifests,
    client: Client,
    write: Write,
    builder: Builder,
    view: View,
    builds: u64,
    /// The last failure that was shown: an unchanged one is not shown again.
    shown: Option<String>,
}

impl Session {
    /// Creates a session.
    pub fn new(
        project: Project,
        builder: Builder,
        manifests: Manifests,
        client: Client,
        write: Write,
        view: View,
    ) -> Self {
        Self {
            project,
            manifests,
            client,
            write,
            builder,
            view,
            builds: 0,
            shown: None,
        }
    }

    /// Runs until `q` is pressed.
    ///
    /// # Errors
    /// Returns an error if the API server refuses the project's objects at the start, or files
    /// cannot be watched.
    pub async fn run(&mut self) -> Result<()> {
        let mut changes = Changes::watch(&self.project.dir, self.manifests.folder())?;
        let mut keys = Keys::read();

        for file in FILES {
            self.apply(file).await?;
        }

        self.view.say("q quits, r recreates the sample");
        let mut work = Work::Build;
        loop {
            let event = tokio::select! {
                event = self.do_work(work) => event?,
                // A save during a build: what is built now is outdated already.
                changed = changes.next() => Event::Saved(changed),
                key = keys.next() => Event::Pressed(key),
            };

            work = match event {
                Event::Pressed(Key::Quit) => return Ok(()),
                Event::Pressed(Key::Reset) => {
                    self.reset().await;
                    work
                }
                Event::Saved(changed) => {
                    if self.follow(&changed).await {
                        Work::Build
                    } else {
                        work
                    }
                }
                Event::Built(built) => self.finish(built).await?,
                Event::Checked(wrong) => {
                    if let Some(wrong) = wrong {
                        self.view.fail(&wrong);
                    }
                    Work::None
                }
            };
        }
    }

    /// Does what is due. A save or a key may cancel it; it then starts over.
    async fn do_work(&mut self, work: Work) -> Result<Event> {
        match work {
            Work::Build => self.builder.build().await.map(Event::Built),
            Work::CheckTypes => Ok(Event::Checked(self.builder.check_types().await)),
            Work::None => std::future::pending().await,
        }
    }

    /// Applies the objects of changed manifests. Returns true if the code has changed.
    async fn follow(&mut self, changed: &[PathBuf]) -> bool {
        self.builder.follow(changed);
        let is_file = |path: &PathBuf, file: &str| *path == self.manifests.folder().join(file);
        let is_code = changed
            .iter()
            .any(|path| !FILES.iter().any(|file| is_file(path, file)));
        let due: Vec<&'static str> = FILES
            .into_iter()
            .filter(|file| changed.iter().any(|path| is_file(path, file)))
            .collect();

        for file in due {
            let applied = match self.manifests.reload(file) {
                Ok(()) => self.apply(file).await,
                Err(error) => Err(error),
            };

            match applied {
                Ok(()) => self.view.say(&format!("applied {file}")),
                Err(error) => self.view.fail(&format!("{error:#}")),
            }
        }
        is_code
    }

    async fn apply(&self, file: &str) -> Result<()> {
        for object in self.manifests.of(file) {
            objects::apply(&self.client, &object, self.write).await?;
            if object["kind"] == "CustomResourceDefinition" {
                objects::until_served(&self.client, &object).await?;
            }
        }

        Ok(())
    }

    /// Shows the outcome of a build, and makes the host run what was built. Returns what is due
    /// next.
    async fn finish(&mut self, built: Built) -> Result<Work> {
        if let Some(failure) = built.failure {
            if self.shown.as_ref() != Some(&failure) {
                self.view
                    .fail(&format!("{failure}\n(the previous code keeps running)"));
            }
            self.shown = Some(failure);
            return Ok(Work::None);
        }

        self.shown = None;
        self.builds += 1;
        if let Some(note) = built.note {
            self.view.say(&note);
        }

        let file = built
            .output
            .strip_prefix(&self.project.dir)
            .unwrap_or(&built.output);
        self.view.say(&format!(
            "built {} in {:.2} s",
            file.display(),
            built.took.as_secs_f64()
        ));

        self.load(&built.output).await?;
        Ok(Work::CheckTypes)
    }

    /// Writes the Plugin, so that the host reads the component.
    async fn load(&self, component: &Path) -> Result<()> {
        let file = component
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());

        let plugin = json!({
            "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin",
            "metadata": {
                "name": self.project.name, "namespace": self.manifests.namespace,
                "annotations": {BUILD: self.builds.to_string()},
            },
            "spec": {
                "source": {"path": file.context("the component has no file name")?},
                "serviceAccountName": self.manifests.service_account()?,
            },
        });
        objects::apply(&self.client, &plugin, self.write).await
    }

    /// Deletes the sample objects and recreates them.
    async fn reset(&self) {
        match self.try_reset().await {
            Ok(()) => self.view.say("recreated the sample"),
            Err(error) => self.view.fail(&format!("{error:#}")),
        }
    }

    async fn try_reset(&self) -> Result<()> {
        let client = &self.client;
        let sample: Vec<Value> = self.manifests.of(SAMPLE);
        for object in &sample {
            objects::delete(client, object, PropagationPolicy::Foreground).await?;
        }

        for object in &sample {
            objects::until_deleted(client, object, std::time::Duration::from_secs(10)).await?;
            objects::apply(client, object, self.write).await?;
        }

        Ok(())
    }
}
