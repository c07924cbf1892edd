//! Power cuts: for many moments of a scripted run the files as a cut would leave them are opened, and must hold all that was
//! acknowledged by then, each commit whole or not at all.
//!
//! After each acknowledgement the file and its log are copied. Between two copies the disk may hold
//! - any beginning of what was appended to the log: every frame, and inside of frames by sectors and by single bytes;
//! - a log that is begun anew over an old one, up to any sector;
//! - during a checkpoint, any choice of the file's pages that were to be written, torn ones included, with the log whole.
//!
//! `POWER_CUT_IMAGES=1000000` asks for at least so many images (the default takes some seconds). Each run has a seed of its own, from
//! `POWER_CUT_SEED` on; `POWER_CUT_SEED=7 POWER_CUT_IMAGES=1` runs that one alone.
//!
//! Source: SQLite, "WAL-mode File Format", "Atomic Commit In SQLite" (sectors, torn writes).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::AddAssign,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use objectstore::{Expect, Key, Page, Resource, Scope, SqliteStore, Store, Write};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Row, sqlite::SqliteConnectOptions};

const IMAGES: u64 = 2_000;
const SECTOR: usize = 512;
const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + PAGE;
/// Commits of a run: enough for a checkpoint and a log begun anew.
const COMMITS: usize = 60;
/// Images of a run, at least.
const OF_A_RUN: u64 = 2_000;
/// Of so many images one is opened as the agent does; the others by a bare connection, which is much quicker.
const WHOLE_OPEN: u64 = 50;
/// Cuts anywhere in the log, between two moments.
const ANYWHERE: usize = 8;
/// Logs of which sectors are missing, between two moments.
const SCATTERED: usize = 8;
/// Checkpoints cut off, between two moments with one.
const CHECKPOINTS: usize = 32;

/// Name → note of all objects.
type State = BTreeMap<String, String>;

/// The files at a moment, and what was acknowledged by then.
struct Moment {
    file: Vec<u8>,
    log: Vec<u8>,
    state: State,
}

/// Where files are written and read: in memory where the machine has that.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

/// A run of so many commits of one to four writes.
async fn run(path: &Path, commits: usize, random: &mut StdRng) -> Vec<Moment> {
    let store = SqliteStore::open(path).await.unwrap();
    let mut state = State::new();
    let mut moments = vec![moment(path, &state)];
    for commit in 0..commits {
        let mut writes = Vec::new();
        for _ in 0..random.random_range(1..=4) {
            let name = format!("p-{}", random.random_range(0..40));
            let key = Key::new(Resource::new("", "pods"), "a", name.as_str());
            let value = if state.contains_key(&name) && random.random_bool(0.3) {
                state.remove(&name);
                None
            } else {
                let note = format!("{commit}.{}", "x".repeat(random.random_range(0..6000)));
                state.insert(name.clone(), note.clone());
                Some(json!({"metadata": {"name": name}, "note": note}))
            };
            writes.push(Write {
                key,
                expect: Expect::Anything,
                value,
            });
        }
        store.commit(writes).await.unwrap();
        moments.push(moment(path, &state));
    }
    moments
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

fn moment(path: &Path, state: &State) -> Moment {
    let (file, log) = (
        std::fs::read(path).unwrap(),
        std::fs::read(log_of(path)).unwrap_or_default(),
    );
    Moment {
        file,
        log,
        state: state.clone(),
    }
}

/// Where the power goes between two moments.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// So many bytes of the log are the new ones. What is beyond is what was there before.
    Log(usize),
    /// The sectors of the last commit reach the disk in any order; none is known to be there before the sync.
    Scattered,
    /// A checkpoint writes pages of the file when all of the log is on the disk.
    Checkpoint,
}

/// The files as a cut leaves them.
struct Image<'a> {
    file: Cow<'a, [u8]>,
    log: Cow<'a, [u8]>,
    /// Whether all of the second commit is on the disk.
    is_whole: bool,
}

/// Two moments, one commit apart.
struct Step<'a> {
    before: &'a Moment,
    after: &'a Moment,
    /// Where in the log the second one begins to differ from the first …
    start: usize,
    /// … and behind the last byte that differs.
    end: usize,
}

impl<'a> Step<'a> {
    fn new(before: &'a Moment, after: &'a Moment) -> Self {
        let (start, end) = (
            divergence(&before.log, &after.log),
            end_of_news(&before.log, &after.log),
        );
        Self {
            before,
            after,
            start,
            end,
        }
    }

    fn has_checkpoint(&self) -> bool {
        self.before.file != self.after.file
    }

    /// Whether the log is begun anew over an old one.
    fn has_restart(&self) -> bool {
        let head = |moment: &Moment| moment.log[..LOG_HEADER].to_vec();
        !self.before.log.is_empty() && head(self.before) != head(self.after)
    }

    /// All cuts at frames and sectors, and some torn ones.
    fn cuts(&self, random: &mut StdRng) -> Vec<Cut> {
        let Self { start, end, .. } = *self;
        let mut ends: Vec<usize> = (start..end).filter(|at| at % SECTOR == 0).collect();
        let is_frame = |at: &usize| *at >= LOG_HEADER && (at - LOG_HEADER).is_multiple_of(FRAME);
        ends.extend((start..=end).filter(is_frame));
        ends.push(end);
        ends.extend((0..ANYWHERE).map(|_| random.random_range(start..=end.max(start))));
        let mut cuts: Vec<Cut> = ends.into_iter().map(Cut::Log).collect();
        cuts.extend([Cut::Scattered; SCATTERED]);
        if self.has_checkpoint() {
            cuts.extend([Cut::Checkpoint; CHECKPOINTS]);
        }
        cuts
    }

    fn image(&self, cut: Cut, random: &mut StdRng) -> Image<'a> {
        let (file, log) = (
            Cow::Borrowed(&*self.before.file),
            Cow::Borrowed(&*self.after.log),
        );
        match cut {
            Cut::Log(until) => {
                let mut log = self.after.log[..until].to_vec();
                log.extend_from_slice(self.before.log.get(until..).unwrap_or_default());
                Image {
                    file,
                    is_whole: log == self.after.log,
                    log: log.into(),
                }
            }
            Cut::Scattered => Image {
                file,
                log: self.scatter(random).into(),
                is_whole: false,
            },
            Cut::Checkpoint => Image {
                file: self.half_checkpoint(random).into(),
                log,
                is_whole: true,
            },
        }
    }

    fn scatter(&self, random: &mut StdRng) -> Vec<u8> {
        let mut log = self.after.log.clone();
        for sector in self.start / SECTOR..self.end.div_ceil(SECTOR) {
            if random.random_bool(0.3) {
                let lost = (sector * SECTOR).max(self.start)..((sector + 1) * SECTOR).min(self.end);
                let old = self.before.log.get(lost.start..).unwrap_or_default();
                let old = old.iter().copied().chain(std::iter::repeat(0));
                log[lost]
                    .iter_mut()
                    .zip(old)
                    .for_each(|(byte, old)| *byte = old);
            }
        }
        log
    }

    fn half_checkpoint(&self, random: &mut StdRng) -> Vec<u8> {
        let mut file = self.before.file.clone();
        file.resize(self.before.file.len().max(self.after.file.len()), 0);
        let torn = random.random_range(0..file.len().div_ceil(SECTOR));
        let share = random.random_range(0.0..1.0);
        for page in 0..file.len() / PAGE {
            if random.random_bool(share) {
                for sector in page * PAGE / SECTOR..(page + 1) * PAGE / SECTOR {
                    if sector == torn {
                        break;
                    }
                    let bytes = sector * SECTOR..(sector + 1) * SECTOR;
                    if let Some(new) = self.after.file.get(bytes.clone()) {
                        file[bytes].copy_from_slice(new);
                    }
                }
            }
        }
        file
    }
}

/// Where the second one begins to differ from the first. By sectors first: byte by byte through a megabyte takes long.
fn divergence(before: &[u8], after: &[u8]) -> usize {
    let sectors = before.chunks_exact(SECTOR).zip(after.chunks_exact(SECTOR));
    let same = sectors.take_while(|(old, new)| old == new).count() * SECTOR;
    same + before[same..]
        .iter()
        .zip(&after[same..])
        .take_while(|(old, new)| old == new)
        .count()
}

/// Behind the last byte of the second one that the first does not have there.
fn end_of_news(before: &[u8], after: &[u8]) -> usize {
    let Some(before) = before.get(..after.len()) else {
        return after.len();
    };
    let sectors = before
        .rchunks_exact(SECTOR)
        .zip(after.rchunks_exact(SECTOR));
    let end = after.len() - sectors.take_while(|(old, new)| old == new).count() * SECTOR;
    (0..end)
        .rev()
        .find(|&at| before[at] != after[at])
        .map_or(0, |at| at + 1)
}

/// What the files hold.
async fn read(path: &Path) -> State {
    // one that may write brings the log into the file when it closes
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .connect()
        .await
        .unwrap();
    let rows = sqlx::query("SELECT name, value FROM objects")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let note = |json: Vec<u8>| {
        let value: Value = serde_json::from_slice(&json).unwrap();
        value["note"].as_str().unwrap().to_owned()
    };
    rows.iter()
        .map(|row| (row.get(0), note(row.get(1))))
        .collect()
}

/// The same through the store.
async fn read_as_the_agent_does(path: &Path) -> State {
    let recovered = SqliteStore::open_or_begin_anew(path, Default::default())
        .await
        .unwrap();
    assert_eq!(recovered.set_aside, None, "what a cut leaves is no damage");
    let scope = Scope {
        resource: Resource::new("", "pods"),
        namespace: None,
    };
    let items = recovered
        .store
        .list(&scope, &Page::default())
        .await
        .unwrap()
        .items;
    let note = |value: Value| value["note"].as_str().unwrap().to_owned();
    items
        .into_iter()
        .map(|object| (object.key.name.clone(), note(object.value().unwrap())))
        .collect()
}

fn lay_out(path: &Path, file: &[u8], log: &[u8]) {
    std::fs::write(path, file).unwrap();
    std::fs::write(log_of(path), log).unwrap();
    let _ = std::fs::remove_file(format!("{}-shm", path.display()));
}

async fn check(
    path: &Path,
    number: u64,
    image: &Image<'_>,
    step: &Step<'_>,
) -> Result<(), &'static str> {
    lay_out(path, &image.file, &image.log);
    let as_the_agent_does = number.is_multiple_of(WHOLE_OPEN);
    let found = if as_the_agent_does {
        read_as_the_agent_does(path).await
    } else {
        read(path).await
    };
    if found == step.after.state {
        Ok(())
    } else if image.is_whole {
        Err("the last commit is lost")
    } else if found == step.before.state {
        Ok(())
    } else {
        Err("half a commit")
    }
}

/// What was looked at.
#[derive(Debug, Default)]
struct Tally {
    images: u64,
    checkpoints: u64,
    /// Logs begun anew.
    restarts: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.images += other.images;
        self.checkpoints += other.checkpoints;
        self.restarts += other.restarts;
    }
}

/// One run, and every cut of it.
async fn run_and_cut(seed: u64) -> Tally {
    let mut random = StdRng::seed_from_u64(seed);
    let directory = directory();
    let moments = run(&directory.path().join("run.db"), COMMITS, &mut random).await;
    let mut tally = Tally::default();
    for pair in moments.windows(2) {
        let step = Step::new(&pair[0], &pair[1]);
        tally.checkpoints += u64::from(step.has_checkpoint());
        tally.restarts += u64::from(step.has_restart());
        for cut in step.cuts(&mut random) {
            let image = step.image(cut, &mut random);
            // a store that was opened may still be closing the file of its image
            let path = directory.path().join(format!("image-{}.db", tally.images));
            let checked = check(&path, tally.images, &image, &step).await;
            assert_eq!(checked, Ok(()), "image {}: {cut:?}", tally.images);
            for part in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{part}", path.display()));
            }
            tally.images += 1;
        }
    }
    tally
}

/// Says how a run is seen again that fails in any way, and lets no other one begin.
struct Again<'a> {
    seed: u64,
    next: &'a AtomicU64,
    end: u64,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.next.store(self.end, Ordering::Relaxed);
            eprintln!(
                "POWER_CUT_SEED={} POWER_CUT_IMAGES=1 shows it again",
                self.seed
            );
        }
    }
}

#[test]
fn whenever_the_power_goes_what_was_acknowledged_is_there() {
    let first = setting("POWER_CUT_SEED", 1);
    let end = first + setting("POWER_CUT_IMAGES", IMAGES).div_ceil(OF_A_RUN);
    let (next, total) = (AtomicU64::new(first), Mutex::new(Tally::default()));
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let _again = Again {
                seed,
                next: &next,
                end,
            };
            let tally = runtime.block_on(run_and_cut(seed));
            assert!(
                tally.images >= OF_A_RUN && tally.checkpoints > 0 && tally.restarts > 0,
                "{tally:?}"
            );
            *total.lock().unwrap() += tally;
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("{:?}", total.into_inner().unwrap());
}

#[tokio::test]
async fn a_cut_while_the_file_is_made_leaves_one_that_can_be_opened() {
    let directory = directory();
    let first = run(
        &directory.path().join("run.db"),
        0,
        &mut StdRng::seed_from_u64(1),
    )
    .await
    .remove(0);
    let mut cuts: Vec<usize> = (0..first.log.len()).step_by(SECTOR).collect();
    cuts.push(first.log.len());
    for cut in cuts {
        let path = directory.path().join(format!("image-{cut}.db"));
        lay_out(&path, &first.file, &first.log[..cut]);
        assert_eq!(read_as_the_agent_does(&path).await, State::new());
    }
}
