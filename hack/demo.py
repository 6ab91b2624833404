"""From nothing to an OpenAI answer: `make demo`.

Enters: this checkout and, optionally, a cluster and registry that the user has. Leaves: Kvasir
installed there by its Helm chart, one small model served, its answer printed. Every step may be
repeated: a second run does what a change since the first asks for, and no more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from local_cluster import Cluster, ClusterError
from local_cluster.progress import Step, Steps

import buildah
import demo_chat
import demo_model
import demo_objects as objects
import demo_wait
import images as image_builder
from demo_target import ExistingTarget, LocalTarget, Target
from images import CHECKOUT, LOG_FOLDER, Images
from kube import Kube

RELEASE = "kvasir"
CHART = CHECKOUT / "charts" / "kvasir"
EXAMPLE = CHECKOUT / "examples" / "smollm2.yaml"
SERVICE = "smollm2"
DEFAULT_STATE = CHECKOUT / ".kvasir" / "cluster"
READY_TIMEOUT_S = 420.0
PENDING = "owner=helm,name={name},status in (pending-install,pending-upgrade,pending-rollback)"


def run_demo(target: Target, steps: Steps) -> None:
    """Run every step, and print the answer and what to do next."""
    LOG_FOLDER.mkdir(parents=True, exist_ok=True)
    kube = target.connect(steps)
    built = image_builder.ensure(steps, target.image_options())
    folder = build_model(steps)
    images = target.bring_images(built, steps, LOG_FOLDER / "demo-images.log")
    install_chart(kube, images, steps)
    kube.apply(objects.namespace(objects.NAMESPACE))
    target.bring_model(kube, folder, images, steps)
    apply_example(kube, images, steps)
    demo_wait.wait_ready(kube, SERVICE, steps, LOG_FOLDER / "demo.log", READY_TIMEOUT_S)
    with steps.step("Ask it a question"):
        answer = demo_chat.ask(kube, SERVICE)
    show_result(kube, answer, steps)
    show_farewell(target, kube, steps)


def build_model(steps: Steps) -> Path:
    """Return the demo model's folder, building it where it isn't there yet."""
    log = LOG_FOLDER / "demo-model.log"
    with steps.step("Build the demo model's folder", log=log) as step:
        folder = demo_model.model_folder()
        if demo_model.is_built(folder):
            step.finish_as("already there")
        else:
            log.write_text("")
            buildah.run_logged([sys.executable, demo_model.__file__], log, step.note)
        return folder


def install_chart(kube: Kube, images: Images, steps: Steps) -> None:
    """Install the chart, or upgrade it to this checkout's images."""
    log = LOG_FOLDER / "demo.log"
    with steps.step("Install the Helm chart", log=log) as step:
        kube.apply(objects.namespace(objects.SYSTEM_NAMESPACE))
        forget_interrupted_release(kube, step)
        try:
            kube.helm(*chart_words(images))
        except ClusterError:
            log.write_text(demo_wait.report(kube, SERVICE))
            raise


def chart_words(images: Images) -> list[str]:
    """Return helm's words for the chart with these images."""
    words = ["upgrade", "--install", RELEASE, str(CHART), f"--namespace={objects.SYSTEM_NAMESPACE}"]
    for value, image in (("operator", images.operator), ("runtime", images.runtime)):
        repository, _, tag = image.rpartition(":")
        words += ["--set-string", f"{value}.image.repository={repository}"]
        words += ["--set-string", f"{value}.image.tag={tag}"]
    return [*words, "--wait", "--timeout=3m"]


def forget_interrupted_release(kube: Kube, step: Step) -> None:
    """Drop the record of a helm run that was interrupted: it would refuse every later one."""
    step.note("looking for an interrupted run")
    selector = f"--selector={PENDING.format(name=RELEASE)}"
    kube.kubectl("delete", "secret", f"--namespace={objects.SYSTEM_NAMESPACE}", selector)


def apply_example(kube: Kube, images: Images, steps: Steps) -> None:
    """Apply the example; one that runs an older image is replaced by this checkout's."""
    namespace = f"--namespace={objects.NAMESPACE}"
    with steps.step(f"Apply {EXAMPLE.relative_to(CHECKOUT)}"):
        if running_image(kube) not in (None, images.runtime):
            # A running engine keeps its image by design, and the demo is to show this one.
            kube.kubectl("delete", "kvs", SERVICE, namespace, "--cascade=foreground", timeout_s=200)
        kube.kubectl("apply", namespace, f"--filename={EXAMPLE}")


def running_image(kube: Kube) -> str | None:
    """Return the image that the service's pods are to run, or None where it has none yet."""
    found = kube.find("deployment", SERVICE, f"--namespace={objects.NAMESPACE}")
    if found is None:
        return None
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def show_result(kube: Kube, answer: str, steps: Steps) -> None:
    """Print the service as kubectl shows it, the question and the answer."""
    steps.raw("")
    steps.raw(kube.kubectl("get", "kvs", f"--namespace={objects.NAMESPACE}").rstrip())
    steps.raw(f"\nQuestion: {demo_chat.QUESTION}\nAnswer:   {answer}\n")


def show_farewell(target: Target, kube: Kube, steps: Steps) -> None:
    """Print how to reach the cluster, what to try there, and how to take it down."""
    farewell = target.farewell()
    commands = [
        f"kubectl get kvs,pods,services --namespace={objects.NAMESPACE}",
        "kubectl explain kvs.spec.engine",
        target.ask_command(kube, SERVICE),
    ]
    for title, lines in (
        ("In your shell:", farewell.setup),
        ("Then try:", commands),
        ("And to stop it:", farewell.down),
    ):
        steps.raw(title)
        for line in lines:
            steps.raw(line)


def parse(arguments: Sequence[str] | None) -> Target:
    """Return where to run, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--context", help="a cluster of your kubeconfig, instead of a local one")
    parser.add_argument("--registry", help="with --context: where to push images, HOST/PATH")
    parser.add_argument("--base", help="with --context: base image of both images")
    parser.add_argument(
        "--state", type=Path, default=DEFAULT_STATE, help="the local cluster's folder"
    )
    parsed = parser.parse_args(arguments)
    if bool(parsed.context) != bool(parsed.registry):
        parser.error("CONTEXT and REGISTRY go together: the nodes pull the images from somewhere")
    if parsed.context:
        return ExistingTarget(parsed.context, parsed.registry, parsed.base or None)
    cluster = Cluster(parsed.state)
    if cluster.state == DEFAULT_STATE:
        return LocalTarget(cluster)
    return LocalTarget(cluster, f"make cluster-down STATE={cluster.state}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    target = parse(arguments)
    try:
        run_demo(target, Steps())
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `make demo` takes it up again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
