//! The state of a node on one screen. Pure.

use std::fmt;

use super::report::{PodState, StatusReport};
use crate::log::recent::RecentLine;

/// The most pods, devices and errors that are printed; `-o json` has all of them.
const MAX_PODS: usize = 20;
const MAX_DEVICES: usize = 10;
const MAX_ERRORS: usize = 5;
/// The most letters of an error.
const MAX_LETTERS: usize = 400;

impl fmt::Display for StatusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Node       {} (edge-agent {}, process {}, started {})",
            self.node, self.version, self.process, self.started
        )?;
        self.write_cloud(f)?;
        for check in &self.unhealthy {
            writeln!(f, "Unhealthy  {check}")?;
        }
        self.write_resources(f)?;
        self.write_pods(f)?;
        self.write_devices(f)?;
        self.write_errors(f)?;
        for failed in &self.failed {
            writeln!(f, "Not read   {failed}")?;
        }
        Ok(())
    }
}

impl StatusReport {
    fn write_cloud(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cloud = &self.cloud;
        let state = match (cloud.connected, cloud.connections) {
            (true, _) => "connected",
            (false, 0) => "not connected yet",
            (false, _) => "connection lost",
        };
        writeln!(
            f,
            "Cloud      {} ({}): {state}, since {} ({})",
            cloud.servers.join(", "),
            cloud.transport,
            cloud.since,
            duration(cloud.seconds)
        )?;
        let queues: Vec<String> = self
            .queues
            .iter()
            .map(|queue| format!("{} {}", queue.name, queue.waiting))
            .collect();
        let queues = match self.queued_messages {
            0 => String::new(),
            _ => format!(" ({})", queues.join(", ")),
        };
        writeln!(
            f,
            "Queued     {} for the cloud{queues}",
            messages(self.queued_messages)
        )
    }

    fn write_resources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.resources;
        let mebibytes = |bytes: Option<u64>| {
            bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
        };
        let load = all
            .load
            .map_or_else(|| "?".to_owned(), |load| format!("{load:.2}"));
        writeln!(
            f,
            "Resources  load {load}, memory {} of {} available, disk {} of {} free, agent uses {}",
            mebibytes(all.memory_available),
            mebibytes(all.memory_total),
            mebibytes(all.disk_free),
            mebibytes(all.disk_total),
            mebibytes(all.agent_memory)
        )
    }

    fn write_pods(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.pods.iter().filter(|pod| pod.waiting).count();
        let waiting = match waiting {
            0 => String::new(),
            some => format!(", {some} waiting"),
        };
        writeln!(f, "Pods       {}{waiting}", self.pods.len())?;
        // waiting pods are those that somebody looks for
        let mut pods: Vec<&PodState> = self.pods.iter().collect();
        pods.sort_by_key(|pod| !pod.waiting);
        for pod in pods.iter().take(MAX_PODS) {
            let name = format!("{}/{}", pod.namespace, pod.name);
            let ready = format!("{}/{}", pod.ready, pod.containers);
            let restarts = match pod.restarts {
                1 => "1 restart".to_owned(),
                some => format!("{some} restarts"),
            };
            let line = format!(
                "  {name:<40} {ready:>5}  {:<18} {}  {}",
                pod.state, restarts, pod.message
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        write_more(f, pods.len(), MAX_PODS)
    }

    fn write_devices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Devices    {}, mappers {}",
            self.devices.len(),
            self.mappers.len()
        )?;
        for mapper in &self.mappers {
            writeln!(
                f,
                "  mapper {} {} for {}",
                mapper.name, mapper.version, mapper.protocol
            )?;
        }
        for device in self.devices.iter().take(MAX_DEVICES) {
            let mapper = match device.mapper {
                true => "",
                false => ", no mapper registered",
            };
            writeln!(
                f,
                "  {:<40} model {} over {}{mapper}",
                device.name, device.model, device.protocol
            )?;
        }
        write_more(f, self.devices.len(), MAX_DEVICES)
    }

    fn write_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.errors.is_empty() {
            return writeln!(f, "Errors     none");
        }
        writeln!(f, "Errors     the latest of the log, the newest first:")?;
        // one that alternates with others is printed once
        let mut latest: Vec<(&RecentLine, u64)> = Vec::new();
        for line in self.errors.iter().rev() {
            let same = |(other, _): &&mut (&RecentLine, u64)| other.text == line.text;
            match latest.iter_mut().find(same) {
                Some((_, count)) => *count += line.count,
                None => latest.push((line, line.count)),
            }
        }
        for (line, count) in latest.into_iter().take(MAX_ERRORS) {
            let mut text: String = line.text.chars().take(MAX_LETTERS).collect();
            if text.len() < line.text.len() {
                text.push('…');
            }
            let times = match count {
                1 => String::new(),
                count => format!(" ({count} times)"),
            };
            // the microseconds do not matter here
            let time = line.time.split('.').next().unwrap_or_default();
            writeln!(f, "  {time} {:<5} {text}{times}", line.level)?;
        }
        Ok(())
    }
}

fn write_more(f: &mut fmt::Formatter<'_>, all: usize, shown: usize) -> fmt::Result {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more; -o json prints all"),
    }
}

fn messages(count: u64) -> String {
    wire::text::count(count, "message")
}

/// Returns a duration as kubectl prints ages.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
