import { Button, Group } from "@mantine/core";
import { IconPlus, IconShieldCheck } from "@tabler/icons-react";
import type { ServiceClassDetail } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { useClasses } from "../../hooks/useClasses";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { ClassCard } from "./ClassCard";
import { ClassDrawer } from "./ClassDrawer";
import { DeleteClass } from "./DeleteClass";
import classes from "./Slas.module.css";

/** The templates that contracts are made from. */
export function ClassesTab() {
  const { operator } = useScope();
  const { values, set } = useUrl();
  const all = useClasses();
  const named = (id: string | undefined) => all.data?.find((one) => one.id === id);
  const create = () => set({ create: "class" }, true);
  const words = t.slas.classes;
  return (
    <>
      <Group justify="space-between" mb="md" gap="sm">
        <p className={classes.lead}>{words.lead}</p>
        {operator && (
          <Button leftSection={<IconPlus size={16} />} onClick={create} data-testid="create-class">
            {words.create}
          </Button>
        )}
      </Group>
      <Loaded query={all}>
        {(rows: ServiceClassDetail[]) =>
          rows.length === 0 ? (
            <Panel>
              <EmptyState
                icon={<IconShieldCheck size={20} stroke={1.6} />}
                title={words.empty}
                text={words.emptyText}
              >
                {operator && <Button onClick={create}>{words.create}</Button>}
              </EmptyState>
            </Panel>
          ) : (
            <div className={classes.cards}>
              {rows.map((one) => (
                <ClassCard
                  key={one.id}
                  level={one}
                  onEdit={operator ? () => set({ edit: one.id }, true) : undefined}
                  onDelete={operator ? () => set({ delete: one.id }, true) : undefined}
                />
              ))}
            </div>
          )
        }
      </Loaded>
      {operator && (
        <>
          <ClassDrawer
            creating={values.create === "class"}
            level={named(values.edit)}
            onClose={() => set({ create: undefined, edit: undefined })}
          />
          <DeleteClass level={named(values.delete)} onClose={() => set({ delete: undefined })} />
        </>
      )}
    </>
  );
}
