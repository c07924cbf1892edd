"""Runs Paho's tests against the broker at a port, with one line for each test: python paho.py MODULE PORT [TEST]."""

import importlib
import logging
import sys
import unittest


class Lines(unittest.TestResult):
    def tell(self, outcome, test, message=""):
        print(f"RESULT {outcome} {test.id().split('.')[-1]} {message}", flush=True)

    def addSuccess(self, test):
        self.tell("passed", test)

    def addFailure(self, test, error):
        self.tell("failed", test, " ".join(str(error[1]).split()))

    def addError(self, test, error):
        self.tell("failed", test, " ".join(repr(error[1]).split()))

    def addSkip(self, test, reason):
        self.tell("skipped", test, reason)


def main():
    name, port = sys.argv[1], int(sys.argv[2])
    sys.path.insert(0, ".")
    module = importlib.import_module(name)
    # what their command lines set by default
    prefix = "client_test5/" if name.endswith("5") else ""
    module.topic_prefix, module.host, module.port, module.nosubscribe_topics = prefix, "127.0.0.1", port, ("test/nosubscribe",)
    module.topics = [prefix + topic for topic in ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")]
    module.wildtopics = [prefix + topic for topic in ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")]
    logging.getLogger().setLevel(logging.ERROR)
    loader = unittest.defaultTestLoader
    tests = loader.loadTestsFromName(f"Test.{sys.argv[3]}", module) if sys.argv[3:] else loader.loadTestsFromModule(module)
    tests.run(Lines())


main()
