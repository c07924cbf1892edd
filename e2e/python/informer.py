"""An informer made with the official client, and what it sees of a cluster.

Lists, watches from the list's resourceVersion, and begins anew after 410 Gone, as every informer does. Needs a kubeconfig in
$KUBECONFIG; ends with exit code 0 and one line of JSON when everything was as an API server has it.
"""

import json
import sys
import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

PATIENCE = 60
NAMESPACE = "default"
GROUP, VERSION, PLURAL = "example.org", "v1", "boats"


class Informer:
    """A cache of the ConfigMaps with a label, kept by list and watch in a thread."""

    def __init__(self, api, selector, start_at=None):
        self.api, self.selector, self.start_at = api, selector, start_at
        self.objects, self.lists, self.gone = {}, 0, 0
        self.changed = threading.Condition()
        self.watching = watch.Watch()
        self.ending, self.failure = False, None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while not self.ending:
                self.list_and_watch()
        except Exception as error:  # told to whoever waits
            with self.changed:
                self.failure = error
                self.changed.notify_all()

    def list_and_watch(self):
        listed = self.api.list_namespaced_config_map(NAMESPACE, label_selector=self.selector)
        with self.changed:
            self.lists += 1
            self.objects = {item.metadata.name: item for item in listed.items}
            self.changed.notify_all()
        # the first watch may begin at a version that is long gone, to see that the server says so
        version, self.start_at = self.start_at or listed.metadata.resource_version, None
        try:
            events = self.watching.stream(
                self.api.list_namespaced_config_map, NAMESPACE, label_selector=self.selector,
                resource_version=version, allow_watch_bookmarks=True, timeout_seconds=PATIENCE)
            for event in events:
                self.seen(event)
        except ApiException as error:
            if error.status != 410:
                raise
            self.gone += 1

    def seen(self, event):
        with self.changed:
            kind, item = event["type"], event["object"]
            if kind in ("ADDED", "MODIFIED"):
                self.objects[item.metadata.name] = item
            elif kind == "DELETED":
                self.objects.pop(item.metadata.name, None)
            self.changed.notify_all()

    def until(self, what, condition):
        with self.changed:
            done = self.changed.wait_for(lambda: self.failure or condition(self), timeout=PATIENCE)
        if self.failure:
            raise self.failure
        if not done:
            raise SystemExit(f"not within {PATIENCE} s: {what}; seen: {sorted(self.objects)}")

    def stop(self):
        self.ending = True
        self.watching.stop()


def config_map(name, data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "informer"}), data=data)


def refused(code, call, *arguments, **named):
    """The Status of a call that must end with this code."""
    try:
        call(*arguments, **named)
    except ApiException as error:
        if error.status == code:
            return json.loads(error.body)
        raise
    raise SystemExit(f"{call.__name__}{arguments} went through")


def follow(core):
    """Objects come, change and go, and the cache follows."""
    core.create_namespaced_config_map(NAMESPACE, config_map("first", {"a": "1"}))
    informer = Informer(core, "app=informer")
    informer.until("the list", lambda it: "first" in it.objects)
    core.create_namespaced_config_map(NAMESPACE, config_map("second", {"a": "1"}))
    informer.until("the creation", lambda it: "second" in it.objects)
    core.patch_namespaced_config_map("second", NAMESPACE, {"data": {"a": "2"}})
    informer.until("the patch", lambda it: it.objects["second"].data["a"] == "2")
    # out of the selector is gone for the watcher
    core.patch_namespaced_config_map("second", NAMESPACE, {"metadata": {"labels": {"app": "other"}}})
    informer.until("the end of the label", lambda it: "second" not in it.objects)
    core.delete_namespaced_config_map("first", NAMESPACE)
    informer.until("the deletion", lambda it: not it.objects)
    informer.stop()
    core.delete_namespaced_config_map("second", NAMESPACE)
    return informer.lists


def recover(core, version):
    """A watch from a version that is no more is answered 410, and the informer lists anew."""
    informer = Informer(core, "app=informer", start_at=version)
    informer.until("the second list", lambda it: it.lists >= 2)
    core.create_namespaced_config_map(NAMESPACE, config_map("after", {}))
    informer.until("the creation after 410", lambda it: "after" in it.objects)
    informer.stop()
    core.delete_namespaced_config_map("after", NAMESPACE)
    return informer.gone


def page(core):
    """A long list comes in pages."""
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}", {}))
    names, token, pages = [], None, 0
    while True:
        part = core.list_namespaced_config_map(NAMESPACE, label_selector="app=informer", limit=2, _continue=token)
        names, token, pages = names + [item.metadata.name for item in part.items], part.metadata._continue, pages + 1
        if not token:
            break
    assert names == [f"page-{number}" for number in range(5)], names
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=informer")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="app=informer").items
    return pages


def refusals(core):
    """What is refused is refused as an API server does it."""
    made = core.create_namespaced_config_map(NAMESPACE, config_map("taken", {}))
    reasons = [
        refused(409, core.create_namespaced_config_map, NAMESPACE, config_map("taken", {}))["reason"],
        refused(404, core.read_namespaced_config_map, "absent", NAMESPACE)["reason"],
        refused(422, core.create_namespaced_config_map, NAMESPACE, config_map("Not a name", {}))["reason"],
    ]
    core.replace_namespaced_config_map("taken", NAMESPACE, made)
    core.patch_namespaced_config_map("taken", NAMESPACE, {"data": {"b": "1"}})
    reasons.append(refused(409, core.replace_namespaced_config_map, "taken", NAMESPACE, made)["reason"])
    core.delete_namespaced_config_map("taken", NAMESPACE)
    return reasons


def custom_objects():
    """A definition, and objects of it without a class of their own."""
    extensions, objects = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"length": {"type": "integer", "minimum": 1}}},
        "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}}}}}
    extensions.create_custom_resource_definition({
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": "Boat", "plural": PLURAL, "singular": "boat"},
            "versions": [{"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
                          "schema": {"openAPIV3Schema": schema}}]}})
    established = watch.Watch()
    for event in established.stream(extensions.list_custom_resource_definition, timeout_seconds=PATIENCE):
        item = event["object"]
        conditions = (item.status.conditions or []) if item.status else []
        if item.spec.group == GROUP and any(c.type == "Established" and c.status == "True" for c in conditions):
            established.stop()
    where = (GROUP, VERSION, NAMESPACE, PLURAL)
    boat = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Boat", "metadata": {"name": "one"}, "spec": {"length": 3}}
    objects.create_namespaced_custom_object(*where, boat)
    objects.patch_namespaced_custom_object(*where, "one", {"spec": {"length": 4}})
    objects.patch_namespaced_custom_object_status(*where, "one", {"status": {"afloat": True}})
    seen = objects.get_namespaced_custom_object(*where, "one")
    assert (seen["spec"], seen["status"]) == ({"length": 4}, {"afloat": True}), seen
    bad = {**boat, "metadata": {"name": "two"}, "spec": {"length": 0}}
    status = refused(422, objects.create_namespaced_custom_object, *where, bad)
    assert status["details"]["causes"][0]["field"] == "spec.length", status
    objects.delete_namespaced_custom_object(*where, "one")
    assert not objects.list_namespaced_custom_object(*where)["items"]
    extensions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    return seen["metadata"]["generation"]


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    told = {
        "lists": follow(core), "pages": page(core), "refused": refusals(core), "generation": custom_objects(),
        "gone": recover(core, sys.argv[1]),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
