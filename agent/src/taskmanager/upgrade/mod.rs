//! Upgrades the agent to the version of an image, or keeps the one that runs.
//!
//! | part | what |
//! |---|---|
//! | `image` | reads files of images through containerd |
//! | `candidate` | copies the new program out of an image and examines it |
//! | `backup` | copies program, configuration and database |
//! | `record` | how far the upgrade has come, on disk |
//! | `trial` | the old version starts the new one and watches whether it connects |
//!
//! Nothing of the image is executed before its digest was compared. The installed program is replaced only by a version that has connected,
//! with one rename: whenever the agent is killed, the next start finds a version that runs.

mod backup;
mod candidate;
mod image;
mod record;
mod trial;

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use clock::spawn_blocking;
use edged::ImagePuller;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use wire::node_job::{self, Action};

pub(crate) use self::{
    image::ImageFiles,
    trial::{AfterTrial, Trial, follow_watcher, note_failure},
};
use self::{
    image::ImageOnNode,
    record::{Phase, Record, version},
};
use super::{configuration::Configuration, jobs::connect_limit};

/// The image that KubeEdge uses if a job names none.
const DEFAULT_IMAGE: &str = "kubeedge/installation-package";
/// The end of the path of a program that was replaced while it runs.
const DELETED: &str = " (deleted)";

/// The spec of an upgrade.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    version: String,
    image: String,
    image_digest_gatter: Option<Digests>,
    pub(super) check_items: Vec<String>,
    timeout_seconds: Option<u64>,
}

/// The digests of an image by processor, as Go names them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Digests {
    amd64: String,
    arm64: String,
}

/// What an upgrade works on.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    /// edgecore.yaml.
    config: PathBuf,
    /// The node's database.
    database: PathBuf,
    /// Cancelling it makes the agent start again.
    restart: CancellationToken,
    /// Reads images.
    files: ImageFiles,
}

impl Spec {
    /// Returns the image of the wanted version.
    fn image(&self) -> Result<String, String> {
        if self.image.is_empty() {
            return Err(format!(
                "spec.image is empty, and the default image {DEFAULT_IMAGE} contains only EdgeCore; name an image with edge-agent"
            ));
        }
        node_job::check_image(&self.image)
            .map_err(|why| format!("image {:?} {why}", self.image))?;
        Ok(format!("{}:{}", repository(&self.image), self.version))
    }

    /// Returns the digest that the image must have; `None` if the job names none.
    fn digest(&self) -> Result<Option<&str>, String> {
        let Some(digests) = &self.image_digest_gatter else {
            return Ok(None);
        };
        let digest = match std::env::consts::ARCH {
            "x86_64" => digests.amd64.as_str(),
            "aarch64" => digests.arm64.as_str(),
            _ => "",
        };
        if digest.is_empty() {
            return Err(format!(
                "imageDigestGatter has no digest for this machine's processor ({})",
                std::env::consts::ARCH
            ));
        }
        Ok(Some(digest))
    }
}

impl Upgrade {
    /// Creates it for the agent with this configuration and database.
    pub(crate) fn new(configuration: &Configuration, database: PathBuf, files: ImageFiles) -> Self {
        Self {
            config: configuration.path().to_owned(),
            restart: configuration.restart().clone(),
            database,
            files,
        }
    }

    /// Checks the job and the version in its image, and keeps the new program beside the installed one.
    pub(super) async fn check(
        &self,
        job: &str,
        spec: &Spec,
        images: &ImagePuller,
    ) -> Result<(), String> {
        node_job::check_version(&spec.version)
            .map_err(|why| format!("version {:?} {why}", spec.version))?;
        if spec.version == version() {
            return Ok(());
        }
        let is_busy = |record: &Record| matches!(record.phase, Phase::OnTrial | Phase::Connected);
        if Record::read(&self.config).is_some_and(|record| is_busy(&record)) {
            return Err("another upgrade is not finished; create the job again later".to_owned());
        }
        let (image, wanted) = (spec.image()?, spec.digest()?);
        images
            .pull(&image, None)
            .await
            .map_err(|why| format!("{image} cannot be pulled: {why}"))?;
        let found = self.files.find(&image).await?;
        if let Some(wanted) = wanted {
            self.compare(&image, &found, wanted, images).await?;
        }
        let program =
            own_program().map_err(|error| format!("this program is not found: {error}"))?;
        let record = Record {
            job: job.to_owned(),
            from: version(),
            to: spec.version.clone(),
            digest: String::new(),
            limit: connect_limit(spec.timeout_seconds).as_secs(),
            starts: 0,
            phase: Phase::Checked,
            program,
        };
        let checked = self.examine(&image, &found, record.clone()).await;
        if checked.is_err() {
            record.remove(&self.config);
        }
        checked
    }

    /// Compares the digest of an image. That of an index is not the digest of the image for this processor, so an image pulled by the
    /// digest must be the same one.
    async fn compare(
        &self,
        image: &str,
        found: &ImageOnNode,
        wanted: &str,
        images: &ImagePuller,
    ) -> Result<(), String> {
        let end = format!("@{wanted}");
        if found.digests.iter().any(|digest| digest.ends_with(&end)) {
            return Ok(());
        }
        let name = format!("{}{end}", repository(image));
        node_job::check_image(&name).map_err(|why| format!("the digest {wanted:?} {why}"))?;
        let differs = |why: &str| format!("{image} does not have the digest {wanted}{why}");
        match images.pull(&name, None).await {
            Ok(()) if self.files.find(&name).await?.id == found.id => Ok(()),
            Ok(()) => Err(differs("")),
            Err(why) => Err(differs(&format!(
                ", and no image with it can be pulled: {why}"
            ))),
        }
    }

    async fn examine(
        &self,
        image: &str,
        found: &ImageOnNode,
        mut record: Record,
    ) -> Result<(), String> {
        let candidate = record.candidate();
        let layers = self.files.open(found).await;
        let extracted = match layers {
            Ok(layers) => {
                let (image, target) = (image.to_owned(), candidate.clone());
                spawn_blocking(move || candidate::extract(&image, &layers, &target))
                    .await
                    .unwrap_or_else(|error| Err(error.to_string()))
            }
            Err(why) => Err(why),
        };
        self.files.close().await;
        record.digest = extracted?;
        candidate::check_version(&candidate, &record.to).await?;
        let needed = backup::size(&record.program) + backup::size(&self.database);
        backup::check_space(&self.database, needed)?;
        let written = record.write(&self.config);
        written.map_err(|error| format!("cannot write beside {}: {error}", self.config.display()))
    }

    /// Backs up what the upgrade could damage.
    pub(super) async fn back_up(&self) -> Result<(), String> {
        let program = Path::new("/proc/self/exe");
        let name = OsStr::new("edge-agent");
        let config = self.config.file_name().unwrap_or_default();
        let files = [(program, name), (self.config.as_path(), config)];
        backup::back_up(&version(), &self.database, files).await
    }

    /// Carries out the action Upgrade: in the old version its begin or its failure, in the new one its end. `connected` waits until the
    /// agent works. Does not return if the agent is to end.
    pub(super) async fn upgrade(
        &self,
        job: &str,
        spec: &Spec,
        connected: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot record the upgrade: {error}");
        let Some(mut record) = Record::read(&self.config).filter(|record| record.job == job) else {
            return match spec.version == version() {
                true => Ok(()),
                false => Err(
                    "another upgrade was checked in the meantime; create the job again".to_owned(),
                ),
            };
        };
        if record.to == version() {
            if record.is_on_trial() {
                connected.await;
                record
                    .enter(&self.config, Phase::Connected)
                    .map_err(failed)?;
                // the old version ends this process
                std::future::pending().await
            }
            return record.enter(&self.config, Phase::Installed).map_err(failed);
        }
        match &record.phase {
            Phase::Failed(why) => Err(why.clone()),
            Phase::Checked => {
                record.enter(&self.config, Phase::OnTrial).map_err(failed)?;
                self.restart.cancel();
                std::future::pending().await
            }
            Phase::OnTrial | Phase::Connected | Phase::Installed => {
                Err(format!("{} is missing", record.candidate().display()))
            }
        }
    }

    /// Removes what is left of an upgrade whose job was deleted, unless the new version has begun to run.
    pub(super) fn cancel(&self, job: &str) {
        self.remove(|record| record.job == job && record.phase == Phase::Checked);
    }

    /// Removes what is left of an upgrade that has failed.
    pub(super) fn clean_up(&self, job: &str) {
        self.remove(|record| record.job == job);
    }

    fn remove(&self, is_meant: impl FnOnce(&Record) -> bool) {
        if let Some(record) = Record::read(&self.config).filter(is_meant) {
            record.remove(&self.config);
        }
    }

    /// Returns the versions before and after an action, as reports name them: `FROM,TO`. Only a successful upgrade has changed the version.
    pub(super) fn versions(&self, job: &str, action: Action, succeeded: bool) -> String {
        let from = || {
            let record = Record::read(&self.config).filter(|record| record.job == job);
            record.map_or_else(version, |record| record.from)
        };
        match action {
            Action::Upgrade if succeeded => format!("{},{}", from(), version()),
            Action::BackUp | Action::Upgrade => format!(",{}", version()),
            _ => String::new(),
        }
    }
}

/// Returns the files that upgrades have left: the record beside the configuration, and the backups beside the database.
pub(super) fn files(config: &Path, database: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
        all.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let backups = entries(&backup::directory(database));
    let mut all: Vec<PathBuf> = backups.iter().flat_map(|backup| entries(backup)).collect();
    // an empty folder is removed with the files in it
    all.extend(backups.iter().map(|backup| backup.join("-")));
    all.push(record::path(config));
    all
}

/// Returns an image without tag and digest.
fn repository(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    }
}

/// Returns the path of this program, also if it was replaced since its start.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    Ok(match text.strip_suffix(DELETED) {
        Some(path) => PathBuf::from(path),
        None => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn the_tag_of_the_image_is_the_version() {
        let pinned = format!("example.com:5000/a/agent:old@{DIGEST}");
        for (image, expected) in [
            ("example.com/agent", Some("example.com/agent:v1.2.3")),
            (
                "example.com:5000/agent",
                Some("example.com:5000/agent:v1.2.3"),
            ),
            (pinned.as_str(), Some("example.com:5000/a/agent:v1.2.3")),
            ("", None),
            ("agent", None),
            ("x/y;z", None),
            ("a b/c", None),
        ] {
            let spec = Spec {
                image: image.to_owned(),
                version: "v1.2.3".to_owned(),
                ..Spec::default()
            };
            assert_eq!(spec.image().ok().as_deref(), expected, "{image}");
        }
    }

    #[test]
    fn a_digest_must_be_that_of_this_processor() {
        let of = |digests: serde_json::Value| {
            let spec = serde_json::json!({"imageDigestGatter": digests});
            let spec: Spec = serde_json::from_value(spec).unwrap();
            spec.digest().map(|digest| digest.map(str::to_owned))
        };
        assert_eq!(of(serde_json::Value::Null), Ok(None));
        let both = serde_json::json!({"amd64": DIGEST, "arm64": DIGEST});
        if matches!(std::env::consts::ARCH, "x86_64" | "aarch64") {
            assert_eq!(of(both), Ok(Some(DIGEST.to_owned())));
        }
        let why = of(serde_json::json!({"registryAPI": {"host": "x"}})).unwrap_err();
        assert!(
            why.starts_with("imageDigestGatter has no digest for"),
            "{why}"
        );
    }

    #[tokio::test]
    async fn invalid_versions_and_images_are_refused_before_the_runtime_is_called() {
        let nowhere = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("edgecore.yaml");
        let configuration = Configuration::new(config, CancellationToken::new());
        let files = ImageFiles::new(nowhere.clone().into(), None);
        let upgrade = Upgrade::new(&configuration, directory.path().join("agent.db"), files);
        let images = ImagePuller::new(nowhere.into(), None);
        for (version, image, why) in [
            (
                "v1.23.0;id",
                "x/y",
                "version \"v1.23.0;id\" must be v and three numbers",
            ),
            ("1.23", "x/y", "version \"1.23\" must be"),
            ("", "x/y", "version \"\" must be"),
            ("v1.23.0", "a b/c", "image \"a b/c\" must be"),
            ("v1.23.0", "x/y;z", "image \"x/y;z\" must be"),
            ("v1.23.0", "", "spec.image is empty"),
        ] {
            let spec = Spec {
                version: version.to_owned(),
                image: image.to_owned(),
                ..Spec::default()
            };
            let error = upgrade.check("1", &spec, &images).await.unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
