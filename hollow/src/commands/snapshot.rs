//! `cloudsim snapshot`: writes the state or the objects of a cloud to a file, from which another cloud starts.

use std::{
    io::{BufWriter, Write},
    path::Path,
    pin::pin,
};

use anyhow::Context;
use cloudsim::ADMIN_PREFIX;
use futures::{AsyncBufReadExt, AsyncReadExt};
use http::Request;
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, ListParams},
    core::TypeMeta,
    discovery::verbs,
};
use wire::text::count;

use super::{connect::connect, on_cloud, print_line};
use crate::{
    cli::{self, Access},
    snapshot::{MAX_BYTES, Snapshot},
};

/// How many objects are read at a time.
const PAGE: u32 = 500;

pub(super) async fn run(options: cli::Snapshot) -> anyhow::Result<()> {
    let cli::Snapshot {
        access,
        objects,
        file,
    } = options;
    on_cloud(access, async |cloud| save(cloud, objects, &file).await).await
}

async fn save(access: &Access, objects: bool, file: &Path) -> anyhow::Result<()> {
    let client = connect(access).await?;
    let failed = || format!("cannot write {}", file.display());
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    // readable by its owner only, and whole or not there
    let temporary = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let mut temporary = temporary.with_context(failed)?;
    let mut writer = BufWriter::new(&mut temporary);
    let written = match objects {
        true => count(write_objects(&client, &mut writer).await?, "object"),
        false => {
            let nodes = write_state(&client, &mut writer).await?;
            format!("the cloud with {}", count(nodes, "simulated node"))
        }
    };
    drop(writer);
    temporary.persist(file).with_context(failed)?;
    print_line(&format!("wrote {written} to {}", file.display()));
    Ok(())
}

/// Writes the lines of a [`Snapshot`], and returns the number of its nodes.
async fn write_state(client: &Client, file: &mut impl Write) -> anyhow::Result<usize> {
    let request = Request::get(format!("{ADMIN_PREFIX}snapshot")).body(Vec::new())?;
    let answer = client.request_stream(request).await;
    let answer = answer.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => anyhow::anyhow!(
            "in cluster mode, cloudsim has no state of its own; use `cloudsim snapshot --objects`"
        ),
        // The cloud's message is readable; the text that kube wraps around it is not.
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        error => error.into(),
    })?;
    let mut answer = pin!(answer.take(MAX_BYTES));
    let (mut nodes, mut lines, mut line) = (0, 0, Vec::new());
    while answer.read_until(b'\n', &mut line).await? > 0 {
        file.write_all(&line)?;
        lines += usize::from(line.ends_with(b"\n"));
        if lines == 1 {
            nodes = Snapshot::count_nodes(&line)?;
        }
        line.clear();
    }
    file.flush()?;
    // the head, the cloud, each node, and the checksum
    anyhow::ensure!(
        lines == nodes + 3,
        "the cloud ended before the snapshot was complete"
    );
    Ok(nodes)
}

/// Writes a list of all objects that the API serves, and returns their number.
async fn write_objects(client: &Client, file: &mut impl Write) -> anyhow::Result<usize> {
    file.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
    let mut written = 0;
    let discovery = Discovery::new(client.clone()).run().await?;
    let groups = discovery.groups();
    let resources = groups.flat_map(kube::discovery::ApiGroup::recommended_resources);
    for (resource, capabilities) in resources {
        if !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let types = TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let mut next = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&next).await;
            let page = page.with_context(|| format!("cannot list {}", resource.plural))?;
            for mut object in page.items {
                object.types = Some(types.clone());
                object.metadata.managed_fields = None;
                file.write_all(if written == 0 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut *file, &object)?;
                written += 1;
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => next = next.continue_token(&token),
                _ => break,
            }
        }
    }
    file.write_all(b"\n]}\n")?;
    file.flush()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{dump::Dump, testing::TestCloud};

    #[tokio::test]
    async fn what_is_written_starts_another_cloud() {
        let cloud = TestCloud::builder().nodes(1).start().await.unwrap();
        let manifest =
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}";
        cloud.apply(manifest).await.unwrap();
        let mut text = Vec::new();
        let written = write_objects(&cloud.client(), &mut text).await.unwrap();
        cloud.stop().await.unwrap();
        let dump = Dump::parse(std::str::from_utf8(&text).unwrap()).unwrap();
        assert!(written > dump.objects() + dump.machines().len());
        let second = TestCloud::builder().nodes(0).dump(dump);
        let second = second.start().await.unwrap();
        let names: Vec<_> = second
            .nodes()
            .iter()
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(names, ["edge-1"]);
        let found = Api::<ConfigMap>::default_namespaced(second.client());
        let found = found.get("settings").await.unwrap().data.unwrap();
        assert_eq!(found["a"], "b");
        second.stop().await.unwrap();
    }
}
