#!/bin/bash
# Is this GPU node fit for a job? For a Slurm prolog or HealthCheckProgram, and for node-problem-detector.
#
#   health_check.sh            prints what is wrong; exit code 1 if something is
#   health_check.sh --drain    as root on a Slurm node: drains it, too, with what is wrong as the reason
#   EXPECTED_GPUS=8            how many GPUs must answer (default: as many as there are)
#
# Reads only, in seconds. What asks for a person (a corrected error, a high temperature) is no reason to drain.
set -u
export LC_ALL=C
export PATH="${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" # Slurm gives a prolog none
problems=()
limit="${CHECK_SECONDS:-20}" # a driver that hangs must not hang the prolog

# nvidia-smi with these options. `timeout` would wait for ever for a process in state D, which no signal ends
ask() {
  local answer process ticks
  answer=$(mktemp) || return
  nvidia-smi "$@" >"$answer" 2>&1 </dev/null &
  process=$!
  for ((ticks = limit * 10; ticks > 0; ticks--)); do
    kill -0 "$process" 2>/dev/null || break
    sleep 0.1
  done
  if ((ticks == 0)); then
    kill -KILL "$process"
    rm -f "$answer"
    echo "no answer in $limit s"
    return 1
  fi
  cat "$answer"
  rm -f "$answer"
  wait "$process"
}

nvidia() {
  local rows xids verdicts
  # name a field per column: a GPU that is lost makes the whole query fail
  if ! rows=$(ask --query-gpu=index,ecc.errors.uncorrected.volatile.total --format=csv,noheader,nounits); then
    problems+=("nvidia-smi failed: ${rows##*$'\n'}")
    return
  fi
  gpus=$(grep -c '^[0-9]' <<<"$rows")
  while IFS=', ' read -r index errors; do
    [[ $errors =~ ^[0-9]+$ ]] && ((errors > 0)) && problems+=("GPU $index: $errors uncorrectable memory errors since the driver was loaded")
  done <<<"$rows"
  rows=$(ask --query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure --format=csv,noheader)
  while IFS=', ' read -r bus pending failure; do
    [[ $failure =~ ^(Yes|1)$ ]] && problems+=("GPU $bus: row remapping failed, replace it")
    [[ $pending =~ ^(Yes|1)$ ]] && problems+=("GPU $bus: a row remap waits for a GPU reset")
  done <<<"$rows"
  # Xids after which a GPU needs a reset, a power cycle or a person; of NVLink 5 (144 to 150) only what is fatal
  xids=$(sed -nE '/: (14[4-9]|150),.*nonfatal/Id; s/.*NVRM: Xid \(([^)]*)\): (46|48|54|62|64|74|79|95|109|110|119|120|136|140|143|14[4-9]|150|155|156|158),.*/Xid \2 on \1/p' <<<"$log" | sort -u | paste -sd ',')
  [[ -z $xids ]] || problems+=("${xids//,/, }")
  # the last verdict of the driver on each GPU
  verdicts=$(sed -nE 's/.*NVRM: Xid \(([^)]*)\): 154,.* to 0x[0-9a-fA-F]+ \(([^)]*)\).*/\1 \2/p' <<<"$log" |
    awk '{bus = $1; $1 = ""; last[bus] = $0} END {for (bus in last) if (last[bus] != " None") print "Xid 154 on " bus ":" last[bus]}' | sort | paste -sd ',')
  [[ -z $verdicts ]] || problems+=("${verdicts//,/, }")
}

amd() {
  local device pages
  for device in /sys/class/drm/card*/device; do
    [[ -e $device/mem_info_vram_total ]] || continue
    gpus=$((gpus + 1))
    errors=$(cat "$device"/ras/*_err_count 2>/dev/null | awk '/^ue:/ {sum += $2} END {print sum + 0}')
    ((errors == 0)) || problems+=("${device%/device}: $errors uncorrectable errors")
    pages=$(grep -cE ': [PF]$' "$device/ras/gpu_vram_bad_pages" 2>/dev/null)
    ((${pages:-0} == 0)) || problems+=("${device%/device}: $pages bad pages are not yet retired: reset the GPU")
  done
}

# only what was logged since the driver was loaded, or since somebody who mended the node wrote
# `echo "health_check: mended" >/dev/kmsg`
dmesg >/dev/null 2>&1 || echo "health_check: the kernel log cannot be read, Xids are not seen: run as root" >&2
log=$(dmesg 2>/dev/null | awk '/NVRM: loading NVIDIA|health_check: mended/ {text = ""} {text = text $0 "\n"} END {printf "%s", text}')
gpus=0
if command -v nvidia-smi >/dev/null; then
  nvidia
else
  amd
fi
if [[ -n ${EXPECTED_GPUS:-} ]] && ((gpus != EXPECTED_GPUS)); then
  problems+=("$gpus GPUs instead of $EXPECTED_GPUS")
fi
for port in /sys/class/infiniband/*/ports/*; do
  [[ -e $port/state ]] || continue
  grep -q ACTIVE "$port/state" || [[ $(cat "$port/phys_state" 2>/dev/null) == *Disabled* ]] || problems+=("${port#/sys/class/infiniband/}: $(cat "$port/state")")
done

((${#problems[@]})) || exit 0
text=$(printf '%s; ' "${problems[@]}")
echo "${text%; }"
if [[ ${1:-} == --drain ]]; then
  scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN Reason="health_check: ${text%; }"
fi
exit 1
