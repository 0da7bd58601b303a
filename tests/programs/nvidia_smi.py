"""What `nvidia-smi -q -x` prints, as far as node_inventory.py reads it, for a made-up node.

Elements and their nesting are those of driver 555 (nvsmi_device_v12.dtd); the values are invented.
"""

GPU = """<gpu id="00000000:{bus}:00.0">
<product_name>{name}</product_name><persistence_mode>Enabled</persistence_mode>
<mig_mode><current_mig>Disabled</current_mig></mig_mode>
<serial>{serial}</serial><uuid>GPU-{serial}</uuid><vbios_version>{vbios}</vbios_version>
<pci><pci_bus_id>00000000:{bus}:00.0</pci_bus_id>
<pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>{gen}</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>{width}x</current_link_width></link_widths>
</pci_gpu_link_info><replay_counter>0</replay_counter></pci>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
<clocks_event_reason_hw_thermal_slowdown>{hot}</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>
<fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
<ecc_errors><volatile><sram_correctable>7</sram_correctable>
<sram_uncorrectable_parity>N/A</sram_uncorrectable_parity><dram_uncorrectable>{dram}</dram_uncorrectable></volatile>
<aggregate><sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate></ecc_errors>
<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
<remapped_row_pending>{pending}</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
<gpu_power_readings><current_power_limit>{power} W</current_power_limit>
<default_power_limit>700.00 W</default_power_limit></gpu_power_readings>
<fabric><state>Completed</state></fabric></gpu>"""

HEALTHY = {"name": "NVIDIA H100 80GB HBM3", "vbios": "96.00.61.00.01", "gen": 5, "width": 16, "hot": "Not Active"}
HEALTHY |= {"dram": 0, "pending": "No", "power": "700.00"}


def xml(count: int = 8, **ill: dict) -> str:
    """The document of a node; `gpu3={"width": 8}` spoils one GPU."""
    gpus = [
        GPU.format(bus=f"{0x1B + index:02X}", serial=f"165{index}", **(HEALTHY | ill.get(f"gpu{index}", {})))
        for index in range(count)
    ]
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>'
    return "\n".join([head, "<driver_version>555.42.06</driver_version>", *gpus, "</nvidia_smi_log>"])


def nvlink(count: int = 8, down: tuple[int, int] | None = None) -> str:
    """What `nvidia-smi nvlink --status` prints; `down` is a GPU and a link."""
    lines = []
    for gpu in range(count):
        lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-165{gpu})")
        lines += [f"\t Link {link}: {'<inactive>' if (gpu, link) == down else '26.562 GB/s'}" for link in range(18)]
    return "\n".join(lines)
