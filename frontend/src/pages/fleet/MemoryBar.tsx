import type { MapGpu } from "../../api/fleet";
import { t } from "../../i18n";
import { bytes } from "../../lib/format";
import classes from "./GpuPicture.module.css";
import { isOver } from "./layout";

/** Memory used against promised; of a CPU the machine's, with what is promised marked apart. */
export function MemoryBar({ gpu }: { gpu: MapGpu }) {
  const words = t.fleet.device;
  const machine = gpu.device === "cpu";
  const { memory_used_bytes: used, promised_bytes: promised, memory_measured_bytes: total } = gpu;
  const width = (part: number) => `${Math.min(100, (100 * part) / Math.max(1, total))}%`;
  const over = isOver(gpu) || undefined;
  const label = machine ? words.machineLabel : words.memoryLabel;
  return (
    <>
      <div
        className={classes.memory}
        role="img"
        aria-label={label(
          bytes(used),
          bytes(promised),
          bytes(machine ? gpu.memory_bytes : total),
          bytes(total),
        )}
        data-machine={machine || undefined}
      >
        <div className={classes.promised} style={{ width: width(promised) }} />
        <div className={classes.used} data-over={over} style={{ width: width(used) }} />
      </div>
      <div className={`${classes.legend} num`} aria-hidden="true">
        <span>
          <i data-kind="used" data-over={over} />
          {machine ? words.machineUsed(bytes(used), bytes(total)) : words.used(bytes(used))}
        </span>
        <span>
          <i data-kind="promised" />
          {machine
            ? words.promisedOf(bytes(promised), bytes(gpu.memory_bytes))
            : words.promised(bytes(promised))}
        </span>
        {!machine && <span>{words.of(bytes(total))}</span>}
      </div>
    </>
  );
}
