from vllm.platforms.cpu import CpuPlatform


class RayOnCpu(CpuPlatform):
    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "ray_on_cpu.communicator.OverHosts"
