"""Tests of the reconciler with the SDK's test kit: an API server with the CRD of this project."""

import unittest

from operetta import is_controlled_by, kinds
from operetta.testing import Cluster, TestCase

import plugin

KEY = ("default", "{{name}}")


class PluginTest(TestCase):
    def setUp(self) -> None:
        sample = plugin.{{kind}}.new("{{name}}", "default", spec={"message": "Hello"})
        self.cluster = Cluster(sample)
        self.reconcile()

    def reconcile(self) -> None:
        self.cluster.reconcile(plugin.plugin, KEY)

    def test_writes_message_to_config_map_and_restores_it(self) -> None:
        obj = self.cluster.get(plugin.{{kind}}, KEY)
        config_map = self.cluster.get(kinds.ConfigMap, KEY)
        self.assertEqual(config_map.data.message, "Hello")
        self.assertTrue(is_controlled_by(config_map, obj))
        self.assertEqual(obj.status.configMap, "{{name}}")

        config_map.data = {}
        self.cluster.context.update(config_map)
        self.reconcile()
        self.assertEqual(self.cluster.get(kinds.ConfigMap, KEY).data.message, "Hello")

    def test_second_reconcile_writes_nothing(self) -> None:
        self.assertEqual(len(self.cluster.writes()), 2)
        self.reconcile()
        self.assertEqual(self.cluster.writes(), [])


if __name__ == "__main__":
    unittest.main()
