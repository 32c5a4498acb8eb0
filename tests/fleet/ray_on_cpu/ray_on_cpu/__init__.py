"""A test double of a device: vLLM's platform for the CPU, which says of itself what it takes of Ray, a device of the kind GPU.

vLLM's own build for the CPU refuses Ray, as it names no such kind, and no flag changes that. What is to be tested is everything else: that Ray
starts, spreads the workers over hosts, ends and fails. No line of vLLM is changed: it finds this as one of its platform plugins.
"""


def platform() -> str:
    return "ray_on_cpu.platform.RayOnCpu"
