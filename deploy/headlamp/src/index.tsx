// Registers what Headlamp shows of Plugins: a list in the sidebar, a page for each, and sections in each of their detail views.

import {
  type DetailsViewSectionProps,
  K8s,
  registerDetailsViewSection,
  registerRoute,
  registerSidebarEntry,
} from "@kinvolk/headlamp-plugin/lib";
import {
  ConditionsTable,
  DetailsGrid,
  ResourceListView,
  SectionBox,
  SimpleTable,
  StatusLabel,
} from "@kinvolk/headlamp-plugin/lib/CommonComponents";
import { useParams } from "react-router-dom";
import { colorOf, commandsFor, type Controller, type State, stateOf, type Status } from "./model";

const LIST = "operetta-plugins";
const DETAILS = "operetta-plugin";

/** A Plugin of Operetta. Headlamp's own routes have the name Plugins, so these have others. */
class Plugin extends K8s.cluster.KubeObject {
  static kind = "Plugin";
  static apiName = "plugins";
  static apiVersion = "operetta.dev/v1alpha1";
  static isNamespaced = true;

  static get listRoute() {
    return LIST;
  }

  static get detailsRoute() {
    return DETAILS;
  }

  get status(): Status {
    return this.jsonData.status ?? {};
  }
}

function StateLabel({ state }: { state: State }) {
  return <StatusLabel status={colorOf(state)}>{state}</StatusLabel>;
}

function PluginList() {
  return (
    <ResourceListView
      title="Operetta plugins"
      resourceClass={Plugin}
      id={LIST}
      columns={[
        "name",
        "namespace",
        {
          id: "state",
          label: "State",
          getValue: (plugin) => stateOf(plugin.status),
          render: (plugin) => <StateLabel state={stateOf(plugin.status)} />,
        },
        { id: "reason", label: "Reason", getValue: (plugin) => plugin.status.reason ?? "" },
        { id: "message", label: "Message", getValue: (plugin) => plugin.status.message ?? "" },
        "age",
      ]}
    />
  );
}

function PluginDetails() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return (
    <DetailsGrid
      resourceType={Plugin}
      name={name}
      namespace={namespace}
      withEvents
      extraInfo={(plugin) =>
        plugin && [
          { name: "State", value: <StateLabel state={stateOf(plugin.status)} /> },
          { name: "Message", value: plugin.status.message },
          { name: "Digest", value: plugin.status.digest },
          { name: "Replica", value: plugin.status.replica },
        ]
      }
    />
  );
}

function Controllers({ controllers }: { controllers: Controller[] }) {
  return (
    <SectionBox title="Controllers">
      <SimpleTable
        emptyMessage="None: the component is not loaded."
        data={controllers}
        columns={[
          { label: "Name", datum: "name" },
          { label: "For", datum: "for" },
          { label: "Reconciles", datum: "reconciles" },
          { label: "Errors", datum: "errors" },
          { label: "Queued", datum: "queued" },
          { label: "Failing keys", datum: "failing" },
          { label: "Last error", getter: (controller: Controller) => controller.lastError ?? "" },
        ]}
      />
    </SectionBox>
  );
}

/** Sections of a Plugin's details, also where Headlamp shows it as any custom resource. */
function PluginSections({ resource }: DetailsViewSectionProps) {
  const object = resource?.jsonData;
  if (object?.kind !== "Plugin" || !object.apiVersion?.startsWith("operetta.dev/")) {
    return null;
  }
  const status: Status = object.status ?? {};
  const { namespace = "default", name } = object.metadata;
  return (
    <>
      <SectionBox title="Conditions">
        <ConditionsTable resource={object} />
      </SectionBox>
      <Controllers controllers={status.controllers ?? []} />
      <SectionBox title="More in a shell">
        <SimpleTable
          data={commandsFor(namespace, name, status)}
          columns={[
            { label: "Purpose", datum: "purpose" },
            { label: "Command", getter: ({ text }: { text: string }) => <code>{text}</code> },
          ]}
        />
      </SectionBox>
    </>
  );
}

registerSidebarEntry({
  parent: null,
  name: LIST,
  label: "Operetta",
  url: "/operetta/plugins",
  icon: "mdi:puzzle",
});
registerRoute({ path: "/operetta/plugins", sidebar: LIST, name: LIST, exact: true, component: PluginList });
registerRoute({
  path: "/operetta/plugins/:namespace/:name",
  sidebar: LIST,
  name: DETAILS,
  exact: true,
  component: PluginDetails,
});
registerDetailsViewSection(PluginSections);
