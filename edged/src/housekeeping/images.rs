//! Selects the images to remove when the disk fills: the least recently used. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#container-image-lifecycle>.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use wire::cri;

use crate::{settings::Housekeeping, timestamps};

/// Records of the images on this node.
#[derive(Debug, Default)]
pub(super) struct ImageRecords(BTreeMap<String, ImageRecord>);

#[derive(Debug)]
struct ImageRecord {
    first_seen: Timestamp,
    /// `None` if it has not been used since the agent started.
    last_used: Option<Timestamp>,
    size: u64,
    /// Whether it is in use, needed by a pod, or pinned.
    in_use: bool,
}

/// An image that may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The runtime's id.
    pub(super) id: String,
    /// Size in bytes.
    pub(super) size: u64,
}

impl ImageRecords {
    /// Updates the records with all images and the names and ids of those in use.
    pub(super) fn update(
        &mut self,
        images: &[cri::Image],
        used: &BTreeSet<String>,
        now: Timestamp,
    ) {
        self.0
            .retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let is_used = is_used(image, used);
            let record = self.0.entry(image.id.clone()).or_insert(ImageRecord {
                first_seen: now,
                last_used: None,
                size: 0,
                in_use: false,
            });
            // Times in the future were recorded before the clock was set back.
            record.first_seen = record.first_seen.min(now);
            record.last_used = if is_used {
                Some(now)
            } else {
                record.last_used.map(|at| at.min(now))
            };
            record.size = image.size;
            record.in_use = is_used || image.pinned;
        }
    }

    /// Returns images that may be removed to free space, the least recently used first.
    pub(super) fn candidates(&self, limits: &Housekeeping, now: Timestamp) -> Vec<Candidate> {
        let mut free: Vec<_> = self.0.iter().filter(|(_, record)| !record.in_use).collect();
        free.retain(|(_, record)| {
            timestamps::until(now, record.first_seen) >= limits.image_min_age
        });
        free.sort_by_key(|(_, record)| (record.last_used, record.first_seen));
        free.into_iter()
            .map(|(id, record)| Candidate {
                id: id.clone(),
                size: record.size,
            })
            .collect()
    }

    /// Returns images that were unused for longer than the maximum age.
    pub(super) fn too_old(&self, limits: &Housekeeping, now: Timestamp) -> Vec<Candidate> {
        let Some(most) = limits.image_max_age else {
            return Vec::new();
        };
        let idle = |record: &ImageRecord| {
            timestamps::until(now, record.last_used.unwrap_or(record.first_seen))
        };
        let old = self
            .0
            .iter()
            .filter(|(_, record)| !record.in_use && idle(record) > most);
        old.map(|(id, record)| Candidate {
            id: id.clone(),
            size: record.size,
        })
        .collect()
    }
}

/// Reports whether one of the names in use is the image's. A name in a pod's specification may lack host and path: `busybox:1` is
/// `docker.io/library/busybox:1`.
fn is_used(image: &cri::Image, used: &BTreeSet<String>) -> bool {
    let names = || image.repo_tags.iter().chain(&image.repo_digests);
    used.contains(&image.id)
        || names().any(|name| {
            used.contains(name)
                || name.match_indices('/').any(|(at, _)| {
                    let short = &name[at + 1..];
                    used.contains(short)
                        || short
                            .strip_suffix(":latest")
                            .is_some_and(|bare| used.contains(bare))
                })
        })
}

/// Capacity and usage of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FsUsage {
    /// Capacity in bytes.
    pub(super) capacity: i64,
    /// Available bytes.
    pub(super) available: i64,
}

impl FsUsage {
    /// Returns the used percentage.
    pub(super) fn percent(self) -> i64 {
        let available = i128::from(self.available.clamp(0, self.capacity)) * 100;
        100 - i64::try_from(available / i128::from(self.capacity.max(1))).unwrap_or(0)
    }

    /// Returns how many bytes to free if the high threshold is reached.
    pub(super) fn bytes_to_free(self, limits: &Housekeeping) -> Option<u64> {
        if limits.image_high_percent >= 100 || self.percent() < i64::from(limits.image_high_percent)
        {
            return None;
        }
        let free = i128::from(100 - limits.image_low_percent);
        let wanted = i128::from(self.capacity) * free / 100 - i128::from(self.available);
        u64::try_from(wanted).ok().filter(|bytes| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn image(id: &str, tag: &str, size: u64) -> cri::Image {
        cri::Image {
            id: id.into(),
            repo_tags: vec![tag.into()],
            size,
            ..Default::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn ids(candidates: Vec<Candidate>) -> String {
        candidates
            .into_iter()
            .map(|one| one.id)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_least_recently_used_goes_first_and_what_is_used_stays() {
        let limits = Housekeeping {
            image_max_age: Some(Duration::from_secs(500)),
            ..Housekeeping::default()
        };
        let mut records = ImageRecords::default();
        let pinned = cri::Image {
            pinned: true,
            ..image("pause", "pause:1", 1)
        };
        let mut images = vec![
            image("a", "docker.io/library/a:1", 5),
            image("b", "r/b:2", 6),
            image("c", "r/c:latest", 7),
            pinned,
        ];
        records.update(&images, &set(&["a", "a:1", "c"]), at(0));
        records.update(&images, &set(&["c"]), at(100));
        assert_eq!(ids(records.candidates(&limits, at(119))), "", "too young");
        records.update(&images, &set(&["c"]), at(120));
        assert_eq!(
            ids(records.candidates(&limits, at(120))),
            "b a",
            "never used, used at 0"
        );
        images.push(image("d", "r/d:1", 1));
        records.update(&images, &set(&[]), at(200));
        assert_eq!(ids(records.candidates(&limits, at(200))), "b a c");
        assert_eq!(ids(records.too_old(&limits, at(501))), "a b");
        assert_eq!(ids(records.too_old(&limits, at(621))), "a b c");
        images.retain(|image| image.id != "b");
        records.update(&images, &set(&[]), at(700));
        assert_eq!(
            ids(records.candidates(&limits, at(700))),
            "d a c",
            "never used goes first"
        );
        records.update(&images, &set(&[]), at(-9000));
        assert_eq!(
            ids(records.candidates(&limits, at(-9000))),
            "",
            "the clock was set back"
        );
        assert_eq!(ids(records.candidates(&limits, at(-8880))), "d a c");
    }

    #[test]
    fn short_image_names_are_matched() {
        let one = cri::Image {
            id: "sha256:1".into(),
            repo_tags: vec!["docker.io/library/busybox:latest".into()],
            repo_digests: vec!["docker.io/library/busybox@sha256:2".into()],
            ..Default::default()
        };
        for (name, wanted) in [
            ("sha256:1", true),
            ("docker.io/library/busybox:latest", true),
            ("busybox:latest", true),
            ("busybox", true),
            ("busybox@sha256:2", true),
            ("box", false),
            ("busybox:1", false),
            ("", false),
        ] {
            assert_eq!(is_used(&one, &set(&[name])), wanted, "{name}");
        }
    }

    #[test]
    fn disk_is_freed_from_high_to_low_threshold() {
        let limits = Housekeeping::default();
        let disk = |available| FsUsage {
            capacity: 1000,
            available,
        };
        assert_eq!(disk(160).bytes_to_free(&limits), None, "84 %");
        assert_eq!(disk(150).bytes_to_free(&limits), Some(50), "85 %");
        assert_eq!(disk(0).bytes_to_free(&limits), Some(200));
        let off = Housekeeping {
            image_high_percent: 100,
            ..limits
        };
        assert_eq!(disk(0).bytes_to_free(&off), None);
        assert_eq!(
            FsUsage {
                capacity: 0,
                available: 0
            }
            .percent(),
            100
        );
    }
}
