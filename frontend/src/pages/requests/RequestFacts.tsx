import { type Fact, Facts } from "../../components/Facts";
import { Panel } from "../../components/Panel";

export function RequestFacts({ title, hint, rows }: { title: string; hint?: string; rows: Fact[] }) {
  return (
    <Panel title={title} hint={hint}>
      <Facts rows={rows} />
    </Panel>
  );
}
