"""The addresses of the desk."""

from __future__ import annotations

from django.urls import path, register_converter

from reviews.views import audit, checkpoints, forks, inbox, interrupt, messages, person, queue, sign_in, stream, thread


class ThreadId:
    """Any text that can be the id of a thread."""

    regex = r"[^/\x00]{1,64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(ThreadId, "thread")
app_name = "reviews"
urlpatterns = [
    path("", inbox.index, name="inbox"),
    path("count/", inbox.count, name="count"),
    path("interrupts/<int:pk>/", interrupt.show, name="interrupt"),
    path("interrupts/<int:pk>/row/", inbox.row, name="row"),
    path("interrupts/<int:pk>/draft/", interrupt.draft, name="draft"),
    path("interrupts/<int:pk>/looking/", interrupt.looking, name="looking"),
    path("interrupts/<int:pk>/changed/", interrupt.changed, name="changed"),
    path("interrupts/<int:pk>/again/", forks.correct, name="correct"),
    path("interrupts/<int:pk>/download/", interrupt.download, name="download"),
    path("threads/", thread.index, name="threads"),
    path("threads/<thread:pk>/", thread.show, name="thread"),
    path("threads/<thread:pk>/events/", stream.events, name="events"),
    path("threads/<thread:pk>/replay/", thread.replay, name="replay"),
    path("threads/<thread:pk>/beside/", checkpoints.compared, name="beside"),
    path("threads/<thread:pk>/checkpoints/", checkpoints.index, name="checkpoints"),
    path("threads/<thread:pk>/checkpoints/<str:checkpoint>/", checkpoints.show, name="checkpoint"),
    path("threads/<thread:pk>/checkpoints/<str:checkpoint>/raw/", checkpoints.download, name="raw"),
    path("threads/<thread:pk>/checkpoints/<str:checkpoint>/label/", checkpoints.label, name="label"),
    path("threads/<thread:pk>/checkpoints/<str:checkpoint>/fork/", forks.fork, name="fork"),
    path("threads/<thread:pk>/checkpoints/<str:checkpoint>/rewind/", forks.rewind, name="rewind"),
    path("threads/<thread:pk>/anyway/", messages.anyway, name="anyway"),
    path("threads/<thread:pk>/unanswered/", messages.unanswered, name="unanswered"),
    path("threads/<thread:pk>/queue/clear/", messages.clear, name="clear"),
    path("threads/<thread:pk>/queue/<uuid:run>/cancel/", thread.cancel, name="cancel"),
    path("threads/<thread:pk>/queue/<uuid:run>/move/", messages.move, name="move"),
    path("threads/<thread:pk>/runs/<uuid:run>/stop/", messages.stop, name="stop"),
    path("threads/<thread:pk>/runs/<uuid:run>/retry/", messages.retry, name="retry"),
    path("queue/", queue.index, name="queue"),
    path("threads/<thread:pk>/repair/", queue.repair, name="repair"),
    path("agents/", thread.agents, name="agents"),
    path("audit/", audit.index, name="audit"),
    path("audit/<int:seq>/", audit.entry, name="entry"),
    path("help/", person.help, name="help"),
    path("settings/", person.settings, name="settings"),
    path("settings/password/", person.password, name="password"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/<str:token>/", sign_in.link, name="link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
]
