//! Logs that are read while they are written and rotated.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::FutureExt;
use testkit::{WAIT_TIMEOUT, within};

use super::{
    options::Options,
    reader::{IsRunning, Reader},
};

/// A container's log, and whether it runs.
struct Log {
    _directory: tempfile::TempDir,
    path: PathBuf,
    runs: Arc<AtomicBool>,
}

impl Log {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        fs::write(&path, text).unwrap();
        Self {
            _directory: directory,
            path,
            runs: Arc::new(AtomicBool::new(true)),
        }
    }

    fn write(&self, text: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    async fn reader(&self, options: Options) -> Reader {
        let runs = self.runs.clone();
        let runs: IsRunning = Box::new(move || {
            let runs = runs.clone();
            async move { runs.load(Ordering::Relaxed) }.boxed()
        });
        Reader::open(self.path.clone(), options, runs)
            .await
            .unwrap()
    }

    fn aside(&self) -> PathBuf {
        self.path.with_file_name("0.log.20261126-120000")
    }
}

fn record(text: &str) -> String {
    format!("2026-11-26T12:00:00.000000000Z stdout F {text}\n")
}

fn records(range: std::ops::Range<u32>) -> String {
    range.map(|number| record(&number.to_string())).collect()
}

/// Reads until so many lines have come.
async fn lines(reader: &mut Reader, count: usize) -> Vec<String> {
    let mut text = Vec::new();
    while text.iter().filter(|byte| **byte == b'\n').count() < count {
        let chunk = within("more of the log", reader.next()).await.unwrap();
        text.extend_from_slice(&chunk.expect("not the end"));
    }
    String::from_utf8(text)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

async fn rest(reader: &mut Reader) -> String {
    let mut text = Vec::new();
    while let Some(chunk) = within("the end of the log", reader.next()).await.unwrap() {
        text.extend_from_slice(&chunk);
    }
    String::from_utf8(text).unwrap()
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn follow() -> Options {
    Options {
        follow: true,
        ..Options::default()
    }
}

#[tokio::test]
async fn a_log_is_shown_to_its_end_from_where_the_tail_begins() {
    let log = Log::new(&records(0..100));
    let all = rest(&mut log.reader(Options::default()).await).await;
    assert_eq!(
        all.lines().map(str::to_owned).collect::<Vec<_>>(),
        numbers(0..100)
    );
    for (tail, from) in [(0, 100), (3, 97), (100, 0), (1000, 0)] {
        let tail = Options {
            tail: Some(tail),
            ..Options::default()
        };
        let text = rest(&mut log.reader(tail).await).await;
        assert_eq!(
            text.lines().map(str::to_owned).collect::<Vec<_>>(),
            numbers(from..100),
            "{from}"
        );
    }
    let limited = Options {
        limit: Some(5),
        ..Options::default()
    };
    assert_eq!(rest(&mut log.reader(limited).await).await, "0\n1\n2");
}

#[tokio::test]
async fn later_lines_are_not_shown_without_follow() {
    let log = Log::new(&records(0..3));
    let mut reader = log.reader(Options::default()).await;
    log.write(&records(3..1000));
    assert_eq!(rest(&mut reader).await, "0\n1\n2\n");
}

#[tokio::test]
async fn last_line_without_newline_is_shown_and_huge_line_skipped() {
    let log = Log::new(&record("one"));
    log.write("2026-11-26T12:00:00Z stdout P half");
    assert_eq!(
        rest(&mut log.reader(Options::default()).await).await,
        "one\nhalf"
    );
    let huge = "x".repeat(3 * 1024 * 1024);
    let log = Log::new(&format!(
        "{}{}{}",
        record("one"),
        record(&huge),
        record("two")
    ));
    assert_eq!(
        rest(&mut log.reader(Options::default()).await).await,
        "one\ntwo\n"
    );
}

#[tokio::test]
async fn followed_log_shows_new_lines_and_ends_with_the_container() {
    let log = Log::new(&records(0..2));
    let mut reader = log.reader(follow()).await;
    assert_eq!(lines(&mut reader, 2).await, numbers(0..2));
    // in two writes, of which the first ends within a record
    let next = records(2..4);
    let (first, second) = next.split_at(next.len() / 2 + 10);
    log.write(first);
    log.write(second);
    assert_eq!(lines(&mut reader, 2).await, numbers(2..4));
    log.runs.store(false, Ordering::Relaxed);
    log.write(&records(4..6));
    assert_eq!(rest(&mut reader).await, "4\n5\n");
}

#[tokio::test]
async fn end_is_noticed_while_the_next_instance_keeps_writing() {
    let log = Log::new(&records(0..1));
    let mut reader = log.reader(follow()).await;
    assert_eq!(lines(&mut reader, 1).await, numbers(0..1));
    log.runs.store(false, Ordering::Relaxed);
    let (next, stop) = (
        log.path.with_file_name("1.log"),
        Arc::new(AtomicBool::new(false)),
    );
    let stopped = stop.clone();
    let writing = clock::spawn_blocking(move || {
        while !stopped.load(Ordering::Relaxed) {
            fs::write(&next, "x").unwrap();
        }
    });
    let end = rest(&mut reader).await;
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    assert_eq!(end, "");
}

/// As the runtime and the agent do it: the file is renamed, still written to, and then made anew.
fn rotate(log: &Log, old: &Path, before: &str, after: &str) {
    fs::rename(&log.path, old).unwrap();
    let mut file = OpenOptions::new().append(true).open(old).unwrap();
    file.write_all(before.as_bytes()).unwrap();
    log.write(after);
}

#[tokio::test]
async fn no_line_is_lost_or_shown_twice_over_a_rotation() {
    let log = Log::new(&records(0..2));
    let mut reader = log.reader(follow()).await;
    assert_eq!(lines(&mut reader, 2).await, numbers(0..2));
    rotate(&log, &log.aside(), &records(2..5), &records(5..8));
    assert_eq!(lines(&mut reader, 6).await, numbers(2..8));
    log.write(&records(8..9));
    assert_eq!(lines(&mut reader, 1).await, numbers(8..9));
    log.runs.store(false, Ordering::Relaxed);
    assert_eq!(rest(&mut reader).await, "");
}

#[tokio::test]
async fn no_line_is_lost_over_many_rotations_while_the_log_is_written() {
    let log = Arc::new(Log::new(""));
    let mut reader = log.reader(follow()).await;
    let writer = log.clone();
    let (shown, seen) = std::sync::mpsc::channel();
    let writing = clock::spawn_blocking(move || {
        for round in 0..20_u32 {
            let old = writer.path.with_file_name(format!("0.log.{round}"));
            let from = round * 100;
            rotate(
                &writer,
                &old,
                &records(from..from + 50),
                &records(from + 50..from + 100),
            );
            // a reader that is two files behind finds neither: rotations are seconds apart
            seen.recv_timeout(WAIT_TIMEOUT).unwrap();
        }
    });
    for round in 0..20 {
        assert_eq!(
            lines(&mut reader, 100).await,
            numbers(round * 100..round * 100 + 100)
        );
        shown.send(()).unwrap();
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_container_that_is_gone_has_no_log() {
    let log = Log::new("");
    fs::remove_file(&log.path).unwrap();
    let runs: IsRunning = Box::new(|| async { false }.boxed());
    assert!(
        Reader::open(log.path.clone(), follow(), runs)
            .await
            .is_err()
    );
    let directory = log.path.parent().unwrap().to_owned();
    let runs: IsRunning = Box::new(|| async { false }.boxed());
    assert!(
        Reader::open(directory, follow(), runs).await.is_err(),
        "a directory"
    );
}
