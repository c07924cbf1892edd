//! Power cuts: for many moments of a scripted run the files as a cut would leave them are opened, and must hold all that was
//! acknowledged by then, each commit whole or not at all.
//!
//! After each acknowledgement the file and its log are copied. Between two copies the disk may hold
//! - any beginning of what was appended to the log: every frame, and inside of frames by sectors and by single bytes;
//! - a log that is begun anew over an old one, up to any sector;
//! - during a checkpoint, any choice of the file's pages that were to be written, torn ones included, with the log whole.
//!
//! `POWER_CUT_IMAGES` asks for another number of images (the default takes some seconds), `POWER_CUT_SEED` for another run.
//!
//! Source: SQLite, "WAL-mode File Format", "Atomic Commit In SQLite" (sectors, torn writes).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use futures::StreamExt;
use kubeapi::store::{Expect, Key, Page, Resource, Scope, SqliteStore, Store, Write};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Row, sqlite::SqliteConnectOptions};

const IMAGES: usize = 10_000;
const SECTOR: usize = 512;
const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + PAGE;
/// Commits of a run: enough for several checkpoints.
const COMMITS: usize = 120;
/// Of so many images one is opened as the agent does; the others by a bare connection, which is much quicker.
const WHOLE_OPEN: usize = 50;
/// Images that are looked at at once; each has a thread.
const AT_ONCE: usize = 4;

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
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
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
            writes.push(Write { key, expect: Expect::Anything, value });
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
    let (file, log) = (std::fs::read(path).unwrap(), std::fs::read(log_of(path)).unwrap_or_default());
    Moment { file, log, state: state.clone() }
}

/// One cut between two moments.
struct Image {
    file: Vec<u8>,
    log: Vec<u8>,
    /// Whether all of the second commit is on the disk.
    is_whole: bool,
    what: String,
}

/// Where in the log the second moment begins to differ from the first.
fn divergence(before: &Moment, after: &Moment) -> usize {
    let same = before.log.iter().zip(&after.log).take_while(|(one, other)| one == other).count();
    same.min(after.log.len())
}

/// The log, of whose new bytes the first `until` are written. What is beyond is what was there before.
fn cut_log(before: &Moment, after: &Moment, until: usize) -> Vec<u8> {
    let mut log = after.log[..until].to_vec();
    if before.log.len() > until {
        log.extend_from_slice(&before.log[until..]);
    }
    log
}

/// The last byte that the second moment has written to its log.
fn end_of_news(before: &Moment, after: &Moment) -> usize {
    let old = |at: usize| before.log.get(at);
    (0..after.log.len()).rev().find(|&at| old(at) != Some(&after.log[at])).map_or(0, |at| at + 1)
}

/// All cuts at frames and sectors between two moments, and some torn ones.
fn images(before: &Moment, after: &Moment, random: &mut StdRng) -> Vec<Image> {
    let (start, end) = (divergence(before, after), end_of_news(before, after));
    let mut images = Vec::new();
    let mut ends: Vec<usize> = (start..end).filter(|at| at % SECTOR == 0).collect();
    ends.extend((start..=end).filter(|at| *at >= LOG_HEADER && (at - LOG_HEADER).is_multiple_of(FRAME)));
    ends.push(end);
    for _ in 0..8 {
        ends.push(random.random_range(start..=end.max(start)));
    }
    for end in ends {
        let log = cut_log(before, after, end);
        let (is_whole, what) = (log == after.log, format!("the log cut at {end}"));
        images.push(Image { file: before.file.clone(), log, is_whole, what });
    }
    for _ in 0..8 {
        images.push(scattered(before, after, (start, end), random));
    }
    if before.file != after.file {
        images.extend((0..32).map(|_| half_checkpoint(before, after, random)));
    }
    images
}

/// The sectors of the last commit reach the disk in any order; none is known to be there before the sync.
fn scattered(before: &Moment, after: &Moment, (start, end): (usize, usize), random: &mut StdRng) -> Image {
    let mut log = after.log.clone();
    for sector in start / SECTOR..end.div_ceil(SECTOR) {
        if random.random_bool(0.3) {
            let lost = (sector * SECTOR).max(start)..((sector + 1) * SECTOR).min(end);
            let old = before.log.iter().copied().chain(std::iter::repeat(0)).skip(lost.start);
            log[lost].iter_mut().zip(old).for_each(|(byte, old)| *byte = old);
        }
    }
    Image { file: before.file.clone(), log, is_whole: false, what: "sectors of the log missing".into() }
}

/// A checkpoint writes pages of the file when all of the log is on the disk.
fn half_checkpoint(before: &Moment, after: &Moment, random: &mut StdRng) -> Image {
    let mut file = before.file.clone();
    file.resize(before.file.len().max(after.file.len()), 0);
    let torn = random.random_range(0..file.len().div_ceil(SECTOR));
    let share = random.random_range(0.0..1.0);
    for page in 0..file.len() / PAGE {
        if random.random_bool(share) {
            for sector in page * PAGE / SECTOR..(page + 1) * PAGE / SECTOR {
                if sector == torn {
                    break;
                }
                let bytes = sector * SECTOR..(sector + 1) * SECTOR;
                if let Some(new) = after.file.get(bytes.clone()) {
                    file[bytes].copy_from_slice(new);
                }
            }
        }
    }
    Image { file, log: after.log.clone(), is_whole: true, what: "a checkpoint cut off".into() }
}

/// What the files hold.
async fn read(path: &Path) -> State {
    // one that may write brings the log into the file when it closes
    let mut connection = SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    let rows = sqlx::query("SELECT name, value FROM objects").fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let note = |json: Vec<u8>| {
        let value: Value = serde_json::from_slice(&json).unwrap();
        value["note"].as_str().unwrap().to_owned()
    };
    rows.iter().map(|row| (row.get(0), note(row.get(1)))).collect()
}

/// The same through the store.
async fn read_as_the_agent_does(path: &Path) -> State {
    let recovered = SqliteStore::open_or_begin_anew(path, Default::default()).await.unwrap();
    assert_eq!(recovered.set_aside, None, "what a cut leaves is no damage");
    let scope = Scope { resource: Resource::new("", "pods"), namespace: None };
    let items = recovered.store.list(&scope, &Page::default()).await.unwrap().items;
    let note = |value: Value| value["note"].as_str().unwrap().to_owned();
    items.into_iter().map(|object| (object.key.name.clone(), note(object.value().unwrap()))).collect()
}

fn lay_out(path: &Path, file: &[u8], log: &[u8]) {
    std::fs::write(path, file).unwrap();
    std::fs::write(log_of(path), log).unwrap();
    let _ = std::fs::remove_file(format!("{}-shm", path.display()));
}

async fn check(directory: &Path, number: usize, image: &Image, pair: &[Moment], seed: usize) {
    let path = directory.join(format!("image-{number}.db"));
    lay_out(&path, &image.file, &image.log);
    let as_the_agent_does = number.is_multiple_of(WHOLE_OPEN);
    let found = if as_the_agent_does { read_as_the_agent_does(&path).await } else { read(&path).await };
    let (before, after) = (found == pair[0].state, found == pair[1].state);
    let what = &image.what;
    assert!(after || !image.is_whole, "image {number} of seed {seed}: {what}: the last commit is lost");
    assert!(after || before, "image {number} of seed {seed}: {what}: half a commit");
    for part in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{part}", path.display()));
    }
}

#[tokio::test]
async fn whenever_the_power_goes_what_was_acknowledged_is_there() {
    let (wanted, seed) = (setting("POWER_CUT_IMAGES", IMAGES), setting("POWER_CUT_SEED", 1));
    let mut random = StdRng::seed_from_u64(seed as u64);
    let directory = directory();
    let (mut done, mut checkpoints, mut restarts) = (0, 0, 0);
    while done < wanted {
        let moments = run(&directory.path().join(format!("run-{done}.db")), COMMITS, &mut random).await;
        for pair in moments.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            checkpoints += usize::from(before.file != after.file);
            restarts +=
                usize::from(!before.log.is_empty() && before.log[..LOG_HEADER] != after.log[..LOG_HEADER]);
            let images = images(before, after, &mut random);
            let numbered = futures::stream::iter((done..).zip(&images));
            let check = |(number, image)| check(directory.path(), number, image, pair, seed);
            numbered.for_each_concurrent(AT_ONCE, check).await;
            done += images.len();
            if done >= wanted {
                break;
            }
        }
    }
    let counted = checkpoints > 1 && restarts > 1;
    assert!(counted || wanted < IMAGES, "{checkpoints} checkpoints, {restarts} logs begun anew");
}

#[tokio::test]
async fn a_cut_while_the_file_is_made_leaves_one_that_can_be_opened() {
    let directory = directory();
    let first = run(&directory.path().join("run.db"), 0, &mut StdRng::seed_from_u64(1)).await.remove(0);
    let mut cuts: Vec<usize> = (0..first.log.len()).step_by(SECTOR).collect();
    cuts.push(first.log.len());
    for cut in cuts {
        let path = directory.path().join(format!("image-{cut}.db"));
        lay_out(&path, &first.file, &first.log[..cut]);
        assert_eq!(read_as_the_agent_does(&path).await, State::new());
    }
}
